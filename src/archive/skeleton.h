// The HDF5 metadata of a file, built once per layout and then only copied.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "archive/placement.h"
#include "core/layout.h"

namespace gradstore::archive {

/// Everything of a file that the layout alone decides. Immutable once built.
struct Skeleton {
  std::vector<std::byte> metadata;  ///< The bytes of Placement::metadata.
  Placement placement;
};

/// Makes skeletons. The only implementation (hdf5/skeleton_builder.h) is injected, so that this
/// layer and its programs need no libhdf5.
class SkeletonBuilder {
 public:
  virtual ~SkeletonBuilder() = default;
  /// `sizes.metadata` is ignored: finding it is the builder's work. Deterministic: the same
  /// arguments give the same bytes in every process.
  virtual Skeleton build(const Layout& layout, const PartSizes& sizes) = 0;
};

}  // namespace gradstore::archive
