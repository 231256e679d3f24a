// The file that libhdf5 believes it writes: its metadata in memory, its raw data nowhere.
//
// Where raw data (datasets' elements) lies is decided beforehand; each request of libhdf5 must be
// for the next of the decided extents, so a dataset that is created out of turn or with another
// size fails at once. Metadata goes into one extent behind the seal, in the order of the requests.
//
// The file's end is fixed from the start. It reaches HDF5's superblock, and since no metadata ever
// lies before it, libhdf5 never finds the space it frees to be the file's last and never cuts it
// off: so metadata is the same wherever the raw data lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "archive/placement.h"

namespace gradstore::hdf5 {

/// All members throw Error{internal} on what libhdf5 should not ask for. Offsets count from the
/// seal's first byte.
class MemoryImage {
 public:
  /// Raw data lies where `placement` has its records, and then in `datasets`
  /// (archive::dataset_extents()), in that order; metadata may fill all of placement.metadata.
  /// `metadata_hint`: how much of that it will probably be.
  MemoryImage(const archive::Placement& placement, std::span<const archive::Extent> datasets,
              std::uint64_t metadata_hint = 0);

  std::uint64_t allocate_metadata(std::uint64_t length);  ///< Offset of the new extent.
  std::uint64_t allocate_raw(std::uint64_t length);       ///< Likewise.
  /// libhdf5's first word on a new file: its user block, our seal, ends at `end`. Later it may say
  /// nothing more of that kind.
  void set_end(std::uint64_t end);

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset,
            std::span<std::byte> bytes) const;  ///< Zeros where nothing was written.

  /// 0 before set_end(): by that libhdf5 knows a new file.
  std::uint64_t end() const { return begun_ ? end_ : 0; }
  std::uint64_t metadata_bytes() const { return metadata_end_ - archive::kSealBytes; }
  bool all_raw_allocated() const { return next_raw_ == raw_.size(); }
  /// Metadata from the seal's end on, zeros where nothing was written. Leaves the image empty.
  std::vector<std::byte> take_metadata();

 private:
  void require_metadata(std::uint64_t offset, std::uint64_t length, const char* verb) const;

  std::vector<archive::Extent> raw_;
  std::size_t next_raw_ = 0;
  bool begun_ = false;
  std::uint64_t end_;
  std::uint64_t metadata_limit_;
  std::uint64_t metadata_end_ = archive::kSealBytes;
  std::vector<std::byte> metadata_;
};

}  // namespace gradstore::hdf5
