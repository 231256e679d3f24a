#include "archive/placement.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "gradstore/error.h"

namespace gradstore::archive {

namespace {

constexpr std::uint64_t kSmallAlignment = 64;
constexpr std::uint64_t kLargeFrom = 64 * 1024;
constexpr std::uint64_t kLongestFile = std::numeric_limits<std::int64_t>::max() / 2;

std::uint64_t align(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// Hands out extents one behind the other.
class Cursor {
 public:
  explicit Cursor(std::uint64_t start) : end_(start) {}

  Extent take(std::uint64_t length, std::uint64_t alignment = 0) {
    if (alignment == 0) alignment = length >= kLargeFrom ? kPageBytes : kSmallAlignment;
    const Extent extent{align(end_, alignment), length};
    if (length > kLongestFile || extent.offset > kLongestFile - length) {
      throw Error(ErrorCode::corrupt, "Layout record: the file would be longer than files can be");
    }
    end_ = extent.end();
    return extent;
  }

  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_;
};

}  // namespace

Placement place(const Layout& layout, const PartSizes& sizes) {
  Placement placement;
  Cursor cursor(kSealBytes);
  placement.metadata = cursor.take(sizes.metadata, kPageBytes);
  placement.layout = cursor.take(sizes.layout);
  placement.fingerprints = cursor.take(sizes.fingerprints);
  placement.manifest = cursor.take(sizes.manifest);
  placement.hdf5_end = cursor.end();

  Cursor slices(align(cursor.end(), kPageBytes));
  placement.slices = {slices.end(), 0};
  placement.slice_extents.reserve(layout.slices.size());
  for (const auto& slice : layout.slices) {
    if (slice.alias_of) {
      placement.slice_extents.push_back(placement.slice_extents[*slice.alias_of]);
      continue;
    }
    const auto bytes = num_bytes(slice);
    placement.slice_extents.push_back(bytes == 0 ? Extent{} : slices.take(bytes));
  }
  placement.slices.length = slices.end() - placement.slices.offset;
  if (placement.slices.length > 0) placement.hdf5_end = slices.end();
  placement.file_length = align(slices.end(), kPageBytes);
  return placement;
}

std::vector<Extent> dataset_extents(const Layout& layout, const Placement& placement) {
  std::vector<Extent> extents;
  extents.reserve(layout.slices.size());
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const auto& slice = layout.slices[i];
    const auto& extent = placement.slice_extents[i];
    if (slice.alias_of) continue;
    if (!slice.sparse) {
      extents.push_back(extent);
      continue;
    }
    const auto parts = sparse_parts(slice);
    for (const auto& part : {parts.header, parts.indices, parts.values}) {
      extents.push_back({extent.offset + part.offset, part.length});
    }
  }
  return extents;
}

std::uint64_t manifest_slot(std::uint64_t bytes) {
  if (bytes > kLongestFile) throw Error(ErrorCode::invalid_argument, "The manifest is too long");
  return std::bit_ceil(std::max<std::uint64_t>(bytes, kPageBytes));
}

}  // namespace gradstore::archive
