// Fingerprints of consecutive slices as a record: all of a file's, or a page of them in the index.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "kernels/fingerprint.h"

namespace gradstore::index {

/// `slices`: what the fingerprints are of. What they or other columns say (the count of a dense
/// slice, absmax) is left out. The number of bytes depends on `slices` alone: at most 96 for a
/// dense one, from 16 slices on.
std::string encode_fingerprints(std::span<const kernels::SliceFingerprint> fingerprints,
                                std::span<const SliceSpec> slices);

/// Counts of dense slices are those of `slices`, without the padding.
/// Errors: Error{corrupt} also when there is not one for each; {incompatible} a newer version.
std::vector<kernels::SliceFingerprint> decode_fingerprints(std::span<const std::byte> bytes,
                                                           std::span<const SliceSpec> slices);

}  // namespace gradstore::index
