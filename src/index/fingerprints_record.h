// Fingerprints of consecutive slices as a record: all of a file's, or a page of them in the index.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "kernels/fingerprint.h"

namespace gradstore::index {

/// What the layout or other columns say (element count, absmax) is left out. The number of bytes
/// depends on the number of slices alone: at most 96 a slice from 16 slices on.
std::string encode_fingerprints(std::span<const kernels::SliceFingerprint> fingerprints);

/// `slices`: what the fingerprints are of; element counts are theirs, without the padding.
/// Errors: Error{corrupt} also when there is not one for each; {incompatible} a newer version.
std::vector<kernels::SliceFingerprint> decode_fingerprints(std::span<const std::byte> bytes,
                                                           std::span<const SliceSpec> slices);

}  // namespace gradstore::index
