// Everything of a file that is known before its contents are: records and skeleton of its layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "archive/skeleton.h"
#include "core/digest.h"
#include "core/layout.h"

namespace gradstore::archive {

struct FilePlan {
  Layout layout;
  std::string layout_record;
  Digest128 layout_digest;
  Skeleton skeleton;
  Digest128 metadata_digest;  ///< Of skeleton.metadata.

  const Placement& placement() const { return skeleton.placement; }
};

/// Plans files; keeps the last few plans, because a job has a handful of layouts and many
/// snapshots.
class FilePlanner {
 public:
  /// Looks for the HDF5 metadata of a layout (by its digest) and manifest slot in a file that is
  /// there already: after a restart that is faster than building them.
  using FindMetadata = std::function<std::optional<std::vector<std::byte>>(
      LayoutKind kind, const Digest128& layout, std::uint64_t manifest_slot)>;

  FilePlanner(std::unique_ptr<SkeletonBuilder> builder, FindMetadata find_metadata);

  /// `manifest_bytes`: unpadded length of the manifest that the file is to hold.
  std::shared_ptr<const FilePlan> plan(Layout layout, std::uint64_t manifest_bytes);

  /// Skeletons built so far: stays flat while layouts repeat.
  std::uint64_t skeletons_built() const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<SkeletonBuilder> builder_;
  FindMetadata find_metadata_;
  std::list<std::shared_ptr<const FilePlan>> recent_;  // front: used last
  std::uint64_t built_ = 0;
};

}  // namespace gradstore::archive
