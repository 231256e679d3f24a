#include "torch/sparse_slice.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <string>

#include "gradstore/error.h"
#include "torch/contiguous.h"
#include "torch/dtype_map.h"

namespace gradstore {

namespace {

constexpr std::size_t kIndexBytes = sizeof(std::int64_t);

struct Header {
  std::uint64_t entries;
  std::uint64_t coalesced;
};

}  // namespace

SparseSpec sparse_spec_of(const at::Tensor& tensor) {
  return {static_cast<std::uint32_t>(tensor.sparse_dim()),
          sparse_capacity(static_cast<std::uint64_t>(tensor._nnz()))};
}

at::Tensor pack_sparse(const at::Tensor& tensor, const SliceSpec& slice) {
  const auto parts = sparse_parts(slice);
  const auto indices = contiguous_on_cpu(tensor._indices());
  const auto values = contiguous_on_cpu(tensor._values());
  const Header header{static_cast<std::uint64_t>(tensor._nnz()), tensor.is_coalesced() ? 1u : 0u};

  auto packed = at::zeros({static_cast<std::int64_t>(num_bytes(slice))}, at::kByte);
  auto* bytes = packed.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes + parts.header.offset, &header, sizeof header);
  if (header.entries == 0) return packed;
  const auto* row = static_cast<const std::byte*>(indices.const_data_ptr());
  for (std::size_t d = 0; d < slice.sparse->sparse_dims; ++d) {
    std::memcpy(bytes + parts.indices.offset + d * slice.sparse->capacity * kIndexBytes,
                row + d * header.entries * kIndexBytes, header.entries * kIndexBytes);
  }
  if (values.nbytes() > 0) {
    std::memcpy(bytes + parts.values.offset, values.const_data_ptr(), values.nbytes());
  }
  return packed;
}

at::Tensor unpack_sparse(const at::Tensor& packed, const SliceSpec& slice) {
  const auto parts = sparse_parts(slice);
  const auto* bytes = packed.const_data_ptr<std::uint8_t>();
  Header header{};
  std::memcpy(&header, bytes + parts.header.offset, sizeof header);
  if (header.entries > slice.sparse->capacity || header.coalesced > 1) {
    throw Error(ErrorCode::corrupt, "it says that it has " + std::to_string(header.entries) +
                                        " entries, and has room for " +
                                        std::to_string(slice.sparse->capacity));
  }
  const auto entries = static_cast<std::int64_t>(header.entries);
  const std::vector<std::int64_t> sizes(slice.shape.begin(), slice.shape.end());
  std::vector<std::int64_t> value_sizes{entries};
  value_sizes.insert(value_sizes.end(), sizes.begin() + slice.sparse->sparse_dims, sizes.end());

  auto indices = at::empty({slice.sparse->sparse_dims, entries}, at::kLong);
  auto values = at::empty(value_sizes, scalar_type_of(slice.dtype));
  if (entries > 0) {
    auto* row = static_cast<std::byte*>(indices.mutable_data_ptr());
    for (std::size_t d = 0; d < slice.sparse->sparse_dims; ++d) {
      std::memcpy(row + d * header.entries * kIndexBytes,
                  bytes + parts.indices.offset + d * slice.sparse->capacity * kIndexBytes,
                  header.entries * kIndexBytes);
    }
    if (values.nbytes() > 0) {
      std::memcpy(values.mutable_data_ptr(), bytes + parts.values.offset, values.nbytes());
    }
  }
  const bool coalesced = header.coalesced == 1;
  at::_validate_sparse_coo_tensor_args(indices, values, sizes, coalesced);
  return at::_sparse_coo_tensor_unsafe(indices, values, sizes, values.options().layout(at::kSparse),
                                       coalesced);
}

}  // namespace gradstore
