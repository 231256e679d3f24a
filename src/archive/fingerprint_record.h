// The fingerprints of a file's slices as a record.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/fingerprint.h"

namespace gradstore::archive {

/// The number of bytes depends on the number of slices alone.
std::string encode(std::span<const kernels::SliceFingerprint> fingerprints);

/// Errors: Error{corrupt} also when there are not exactly `slices` of them; Error{incompatible}.
std::vector<kernels::SliceFingerprint> decode_fingerprints(std::span<const std::byte> bytes,
                                                           std::size_t slices);

}  // namespace gradstore::archive
