#include "torch/shared_memory.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace gradstore {

namespace {

struct Range {
  std::int64_t device;
  std::uintptr_t begin;
  std::uintptr_t end;
  std::uint64_t slice;
};

std::int64_t device_number(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.device().type()) * 65536 + tensor.device().index();
}

Range range_of(const at::Tensor& tensor, std::uint64_t slice) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  std::uint64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    last += static_cast<std::uint64_t>((tensor.size(d) - 1) * tensor.stride(d));
  }
  const auto size = static_cast<std::uint64_t>(tensor.element_size());
  return {device_number(tensor), begin, begin + (last + 1) * size, slice};
}

bool same_elements(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

}  // namespace

SlicePairs find_shared_memory(const std::vector<at::Tensor>& tensors,
                              std::vector<SliceSpec>& slices) {
  std::vector<Range> ranges;
  std::unordered_map<const c10::TensorImpl*, std::uint64_t> sparse;
  for (std::uint64_t i = 0; i < tensors.size(); ++i) {
    if (slices[i].sparse) {
      const auto [first, is_new] = sparse.emplace(tensors[i].unsafeGetTensorImpl(), i);
      if (!is_new) slices[i].alias_of = first->second;
    } else if (tensors[i].numel() > 0) {
      ranges.push_back(range_of(tensors[i], i));
    }
  }
  std::ranges::sort(ranges, {}, [](const Range& range) {
    return std::tuple(range.device, range.begin, range.slice);
  });

  SlicePairs overlaps;
  std::vector<Range> open;  // those before that reach beyond the current one's begin
  for (const auto& range : ranges) {
    std::erase_if(open, [&range](const Range& before) {
      return before.device != range.device || before.end <= range.begin;
    });
    const auto same = std::ranges::find_if(open, [&](const Range& before) {
      return before.begin == range.begin &&
             slices[before.slice].padding == slices[range.slice].padding &&
             same_elements(tensors[before.slice], tensors[range.slice]);
    });
    if (same != open.end()) {
      slices[range.slice].alias_of = same->slice;
      continue;
    }
    for (const auto& before : open) {
      if (overlaps.size() == kMostOverlaps) break;
      overlaps.emplace_back(std::min(before.slice, range.slice),
                            std::max(before.slice, range.slice));
    }
    open.push_back(range);
  }
  return overlaps;
}

}  // namespace gradstore
