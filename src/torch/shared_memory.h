// Which tensors of a snapshot lie over the same memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace gradstore {

/// Pairs of slice numbers, the smaller first.
using SlicePairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

/// `tensors[i]` is that of `slices[i]`, which says so far all but `alias_of`. Fills that in: for a
/// slice that is, element by element, the memory of an earlier one (same address, sizes, strides,
/// dtype, lazy bits and padding; of sparse tensors: the same tensor).
///
/// Returns the pairs whose memory overlaps without being that: they are stored whole, each. What is
/// compared is the range from a tensor's first to its last byte, so that interleaved views count as
/// overlapping. At most kMostOverlaps are returned, in the order of their addresses.
SlicePairs find_shared_memory(const std::vector<at::Tensor>& tensors,
                              std::vector<SliceSpec>& slices);

inline constexpr std::size_t kMostOverlaps = 1000;

}  // namespace gradstore
