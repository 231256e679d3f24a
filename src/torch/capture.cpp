#include "torch/capture.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "archive/file_writer.h"
#include "torch/contiguous.h"
#include "torch/dtype_map.h"
#include "torch/sparse_slice.h"

namespace gradstore {

namespace {

using archive::kBlockBytes;

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              where + " cannot be stored: " + why + ". Nothing was captured");
}

std::vector<std::uint64_t> shape_of(const at::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

std::string dtype_is_not_stored(at::ScalarType type) {
  return std::string("dtype ") + at::toString(type) +
         (at::isQIntType(type) ? " is quantised: store tensor.int_repr(), and scale and zero point "
                                 "in the companion state's JSON"
                               : " is unknown to this version");
}

// The memory that a dense tensor's elements lie in must be there.
void check_memory(const at::Tensor& tensor, const std::string& where) {
  if (tensor._is_zerotensor() || tensor.numel() == 0) return;
  if (!tensor.has_storage()) refuse(where, "it has no memory of its own (a wrapper of some kind?)");
  auto last = tensor.storage_offset();
  for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto needed = static_cast<std::size_t>(last + 1) * tensor.element_size();
  if (tensor.storage().nbytes() < needed || tensor.const_data_ptr() == nullptr) {
    refuse(where, "its memory has been freed (" + std::to_string(tensor.storage().nbytes()) +
                      " of " + std::to_string(needed) + " bytes are there)");
  }
}

// What the tensor itself says about its slice: dtype, shape, and whether it is sparse.
SliceSpec spec_of(const at::Tensor& tensor, const std::string& where) {
  if (!tensor.defined()) refuse(where, "the tensor is undefined");
  if (tensor.is_meta()) refuse(where, "it is a meta tensor, which has no data");
  const bool sparse = tensor.layout() == at::kSparse;
  if (tensor.layout() != at::kStrided && !sparse) {
    std::ostringstream layout;
    layout << tensor.layout();
    refuse(where, "its layout is " + layout.str() + "; strided and sparse COO ones can");
  }
  if (tensor.is_nested()) refuse(where, "it is a nested tensor: store its parts");
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype) refuse(where, dtype_is_not_stored(tensor.scalar_type()));
  if (!sparse) check_memory(tensor, where);
  SliceSpec slice;
  slice.dtype = *dtype;
  slice.shape = shape_of(tensor);
  if (sparse) slice.sparse = sparse_spec_of(tensor);
  return slice;
}

// The last step: what shares memory is found, and sparse tensors become bytes.
void finish(CaptureSource& source) {
  source.overlaps = find_shared_memory(source.tensors, source.layout.slices);
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const auto& slice = source.layout.slices[i];
    if (slice.alias_of) {
      source.tensors[i].reset();
    } else if (slice.sparse) {
      source.tensors[i] = pack_sparse(source.tensors[i], slice);
    }
  }
}

class GradientGatherer {
 public:
  CaptureSource run(const GradientStoreView& store) {
    std::map<std::int64_t, std::vector<const RegisteredParam*>> absent;
    for (const auto& param : store.without_slices)
      absent[param->registration.group_id].push_back(param.get());

    for (const auto& group : store.groups) {
      begin_group(group.group_id, /*in_store=*/true);
      for (const auto& param : group.params) add_present(group.group_id, param);
      add_absent(absent[group.group_id]);
      absent.erase(group.group_id);
    }
    for (const auto& [group_id, params] : absent) {
      begin_group(group_id, /*in_store=*/false);
      add_absent(params);
    }
    refuse_strays();
    finish(source_);
    return std::move(source_);
  }

 private:
  void begin_group(std::int64_t id, bool in_store) {
    source_.layout.groups.push_back({id, in_store});
  }

  void add_param(const RegisteredParam& param, Presence presence) {
    const auto& registration = param.registration;
    const auto where = "Param " + printable(registration.name);
    const auto dtype = dtype_of(registration.dtype);
    if (!dtype) refuse(where, dtype_is_not_stored(registration.dtype));
    const auto group = static_cast<std::uint32_t>(source_.layout.groups.size() - 1);
    source_.layout.params.push_back({registration.name,
                                     group,
                                     *dtype,
                                     presence,
                                     {registration.shape.begin(), registration.shape.end()}});
  }

  void add_present(std::int64_t group_id, const StoredParam& param) {
    if (!param.registered) {
      throw Error(ErrorCode::invalid_argument,
                  "Param id " + std::to_string(param.param_id) + " in group " +
                      std::to_string(group_id) +
                      " has gradients but no name: register_param() it before the first snapshot. "
                      "Nothing was captured");
    }
    add_param(*param.registered, Presence::captured);
    if (group_id == param.registered->registration.group_id) {
      at_home_.insert(param.param_id);
      strays_.erase(param.param_id);
    } else if (!at_home_.contains(param.param_id)) {
      strays_.emplace(param.param_id, Stray{group_id, param.registered});
    }
    std::uint32_t position = 0;
    for (const auto& slice : param.slices) {
      const auto where = "Slice " + std::to_string(position) + " of param " +
                         printable(param.registered->registration.name);
      auto spec = spec_of(slice.tensor, where);
      spec.param = static_cast<std::uint32_t>(source_.layout.params.size() - 1);
      spec.position = position++;
      spec.begin = static_cast<std::uint64_t>(slice.range.begin);
      spec.end = static_cast<std::uint64_t>(slice.range.end);
      spec.padding = static_cast<std::uint64_t>(slice.range.padding);
      if (spec.sparse && spec.padding != 0) refuse(where, "it is sparse and has padding");
      source_.layout.slices.push_back(std::move(spec));
      source_.tensors.push_back(slice.tensor);
    }
  }

  void add_absent(const std::vector<const RegisteredParam*>& params) {
    for (const auto* param : params) add_param(*param, Presence::absent);
  }

  // A client may keep a param in several groups, but restore() looks for it in its own.
  void refuse_strays() const {
    if (strays_.empty()) return;
    const auto& stray = strays_.begin()->second;
    const auto& registration = stray.param->registration;
    refuse("Param " + printable(registration.name),
           "it has gradients in group " + std::to_string(stray.group_id) + " and none in group " +
               std::to_string(registration.group_id) + ", where it is registered");
  }

  struct Stray {
    std::int64_t group_id;
    std::shared_ptr<const RegisteredParam> param;
  };
  CaptureSource source_;
  std::set<std::int64_t> at_home_;        // params seen in their own group
  std::map<std::int64_t, Stray> strays_;  // params seen in others only, so far
};

// Contiguous CPU bytes of the slices that a run of blocks touches. Tensors that are not so already
// are copied when the first block needs them and dropped after the last.
class ContiguousSlices {
 public:
  ContiguousSlices(const archive::Placement& placement, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& extent = placement.slice_extents[i];
      if (extent.length > 0 && tensors[i].defined()) pieces_.push_back({extent, tensors[i], {}});
    }
  }

  // Every slice that overlaps [begin, end) of the file is ready afterwards. Calls go upwards.
  void prepare(std::uint64_t begin, std::uint64_t end) {
    for (; first_ < pieces_.size() && pieces_[first_].extent.end() <= begin; ++first_) {
      pieces_[first_].contiguous.reset();
    }
    for (; ready_ < pieces_.size() && pieces_[ready_].extent.offset < end; ++ready_) {
      pieces_[ready_].contiguous = contiguous_on_cpu(pieces_[ready_].tensor);
    }
  }

  // Fills `out`, an image of the file from `begin` on: slices, and zeros between them.
  void fill(std::uint64_t begin, std::span<std::byte> out) const {
    const auto end = begin + out.size();
    const auto last = pieces_.begin() + static_cast<std::ptrdiff_t>(ready_);
    auto piece = std::partition_point(pieces_.begin() + static_cast<std::ptrdiff_t>(first_), last,
                                      [begin](const Piece& p) { return p.extent.end() <= begin; });
    auto at = begin;
    for (; piece != last && piece->extent.offset < end; ++piece) {
      const auto from = std::max(begin, piece->extent.offset);
      const auto to = std::min(end, piece->extent.end());
      std::memset(out.data() + (at - begin), 0, from - at);
      const auto* bytes = static_cast<const std::byte*>(piece->contiguous.const_data_ptr());
      std::memcpy(out.data() + (from - begin), bytes + (from - piece->extent.offset), to - from);
      at = to;
    }
    std::memset(out.data() + (at - begin), 0, end - at);
  }

 private:
  struct Piece {
    archive::Extent extent;
    at::Tensor tensor;
    at::Tensor contiguous;
  };
  std::vector<Piece> pieces_;  // ascending, none empty
  std::size_t first_ = 0;      // those before are done with
  std::size_t ready_ = 0;      // those before are contiguous
};

// As many blocks as there are to be had without waiting, but at least one.
std::vector<io::Block> acquire(std::size_t wanted, io::BlockPool& pool,
                               archive::BlockQueue& queue) {
  std::vector<io::Block> blocks;
  while (blocks.size() < wanted) {
    auto block = pool.try_acquire();
    if (!block) break;
    blocks.push_back(std::move(*block));
  }
  if (blocks.empty()) {
    queue.open_gate();  // Only the writer can make room.
    blocks.push_back(pool.acquire());
  }
  return blocks;
}

}  // namespace

CaptureSource gather_gradients(const GradientStoreView& store) {
  return GradientGatherer().run(store);
}

CaptureSource gather_state(const CompanionState& state) {
  CaptureSource source;
  source.layout.kind = LayoutKind::state;
  source.layout.groups.push_back({});
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : state.tensors) {
    const auto where = "Companion tensor " + printable(name);
    if (!names.insert(name).second) refuse(where, "the name is used twice");
    auto spec = spec_of(tensor, where);
    spec.param = static_cast<std::uint32_t>(source.layout.params.size());
    spec.end = static_cast<std::uint64_t>(tensor.numel());
    source.layout.params.push_back({name, 0, spec.dtype, Presence::captured, spec.shape});
    source.layout.slices.push_back(std::move(spec));
    source.tensors.push_back(tensor);
  }
  finish(source);
  return source;
}

void copy_into_blocks(const archive::FilePlan& plan, const std::vector<at::Tensor>& tensors,
                      io::BlockPool& pool, archive::BlockQueue& queue) {
  const c10::NoGradGuard no_grad;
  const auto& placement = plan.placement();
  const auto total = archive::num_blocks(placement);
  ContiguousSlices slices(placement, tensors);
  for (std::size_t next = 0; next < total;) {
    auto blocks = acquire(total - next, pool, queue);
    const auto begin_of = [&](std::size_t i) {
      return placement.slices.offset + (next + i) * kBlockBytes;
    };
    slices.prepare(begin_of(0), begin_of(blocks.size()));
    at::parallel_for(
        0, static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t first, std::int64_t last) {
          for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
            slices.fill(begin_of(i),
                        blocks[i].bytes().first(archive::block_length(placement, next + i)));
          }
        });
    next += blocks.size();
    for (auto& block : blocks) queue.push(std::move(block));
  }
  queue.finish();
}

}  // namespace gradstore
