// Reads one sealed file by our own records; libhdf5 is not asked.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "archive/manifest.h"
#include "archive/placement.h"
#include "archive/seal.h"
#include "io/file_system.h"
#include "kernels/fingerprint.h"

namespace gradstore::archive {

/// Whose file it must be.
struct FileIdentity {
  LayoutKind kind = LayoutKind::gradients;
  StoreUuid store{};
  std::uint32_t rank = 0;
  SnapshotId id;
};

/// An open file whose seal and records were checked: sizes and offsets in them are safe to use.
/// All members are safe to call concurrently.
class FileReader {
 public:
  /// Errors: {not_found}; {corrupt} naming file and region, also when it is another store's, rank's
  /// or snapshot's file; {incompatible} a newer format; {io}.
  FileReader(io::FileSystem& files, const io::Path& path, const FileIdentity& expected);

  const io::Path& path() const { return path_; }
  const Seal& seal() const { return seal_; }
  const Layout& layout() const { return layout_; }
  const Placement& placement() const { return placement_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<kernels::SliceFingerprint>& fingerprints() const { return fingerprints_; }

  /// Reads slice `number` into `bytes`, which has exactly its length.
  /// Errors: Error{corrupt} naming file, param and slice, when `verify` and the digest differs.
  void read_slice(std::size_t number, std::span<std::byte> bytes, bool verify = true) const;

  /// Bytes at `offset`; Error{corrupt} when the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::vector<std::byte> read_region(const Region& region, const char* name) const;

  io::Path path_;
  std::unique_ptr<io::File> file_;
  Seal seal_;
  Layout layout_;
  Placement placement_;
  Manifest manifest_;
  std::vector<kernels::SliceFingerprint> fingerprints_;
};

/// "param "layers.0.weight", slice 1": where slice `number` belongs, for messages.
std::string describe_slice(const Layout& layout, std::size_t number);

}  // namespace gradstore::archive
