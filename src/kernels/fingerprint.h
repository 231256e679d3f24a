// What is known of a slice's contents without reading them again.
#pragma once

#include "core/digest.h"
#include "kernels/statistics.h"

namespace gradstore::kernels {

struct SliceFingerprint {
  Digest128 digest;       ///< Of the slice's bytes as stored, padding included.
  Statistics statistics;  ///< Of its elements without the padding; of a sparse slice, its values.
  std::uint64_t entries = 0;  ///< Of a sparse slice; else 0.
};

}  // namespace gradstore::kernels
