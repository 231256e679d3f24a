// Where everything lies in a snapshot file. A pure function of the layout and four sizes, so the
// reader computes it again instead of believing offsets read from disk.
//
//   [seal][HDF5 metadata][layout][fingerprints][manifest][slice 0][slice 1]...[zeros]
//
// Each part starts at the next multiple of its alignment: 4096 from 64 KiB on, 64 below; the first
// slice always at a multiple of 4096. The file's length is a multiple of 4096. Gaps are zero.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.h"

namespace gradstore::archive {

inline constexpr std::uint64_t kSealBytes = 4096;  // HDF5's user block
inline constexpr std::uint64_t kPageBytes = 4096;

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t end() const { return offset + length; }
  bool operator==(const Extent&) const = default;
};

/// Bytes of the parts whose size is not the slices' own.
struct PartSizes {
  std::uint64_t metadata = 0;      ///< HDF5 metadata, from the seal's end on.
  std::uint64_t layout = 0;        ///< Layout record.
  std::uint64_t fingerprints = 0;  ///< Fingerprints record.
  std::uint64_t manifest = 0;      ///< Manifest slot: a power of two, at least 4096.
};

struct Placement {
  Extent metadata, layout, fingerprints, manifest;
  Extent slices;  ///< From the first slice's offset to the last one's end.
  /// One per slice; length 0: the slice has no bytes and no place. An alias has the extent of the
  /// slice that it shares; the others follow each other.
  std::vector<Extent> slice_extents;
  std::uint64_t hdf5_end = 0;  ///< HDF5's end of allocation: the end of the last part.
  std::uint64_t file_length = 0;
};

/// Errors: Error{corrupt} when the sum leaves 63 bits.
Placement place(const Layout& layout, const PartSizes& sizes);

/// Extents of the datasets over slices, in the order of the slices: none for an alias, three for a
/// sparse slice (header, indices, values).
std::vector<Extent> dataset_extents(const Layout& layout, const Placement& placement);

/// Slot that holds a manifest of `bytes` bytes: the next power of two, at least 4096.
std::uint64_t manifest_slot(std::uint64_t bytes);

}  // namespace gradstore::archive
