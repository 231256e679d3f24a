// A page of slice statistics: up to 16 consecutive slices of one snapshot.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/fingerprint.h"

namespace gradstore::index {

inline constexpr std::size_t kSlicesPerPage = 16;

/// What the layout or other columns say (element count, absmax) is left out: at most 96 bytes a
/// slice when the page is full. Equal counts of slices give equal sizes.
std::string encode_statistics_page(std::span<const kernels::SliceFingerprint> slices);

/// The element counts are 0: they are the layout's.
/// Errors: Error{corrupt}, Error{incompatible} for a newer version.
std::vector<kernels::SliceFingerprint> decode_statistics_page(std::span<const std::byte> bytes);

}  // namespace gradstore::index
