// The first 4096 bytes of a file: who it is, where its regions lie, and their digests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "archive/placement.h"
#include "core/digest.h"
#include "core/layout.h"
#include "gradstore/snapshot.h"

namespace gradstore::archive {

using StoreUuid = std::array<std::byte, 16>;

struct Region {
  Extent extent;
  Digest128 digest;
  bool operator==(const Region&) const = default;
};

struct Seal {
  LayoutKind kind = LayoutKind::gradients;
  StoreUuid store{};
  SnapshotId id;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint64_t step = 0;
  std::uint32_t micro_step = 0;
  Stage stage = Stage::post_reduce;
  std::uint64_t file_length = 0;
  std::uint64_t hdf5_end = 0;
  Region metadata, layout, fingerprints, manifest;
  Extent slices;  ///< Their digests are in the fingerprints record.

  bool operator==(const Seal&) const = default;
};

/// Digest over all regions, and through the fingerprints over all slices: names the contents.
Digest128 root_digest(const Seal& seal);

std::array<std::byte, kSealBytes> encode(const Seal& seal);

/// `bytes` must be the file's first kSealBytes; offsets and lengths are as written and still to be
/// compared with place() and with the file.
/// Errors: Error{corrupt} no seal or a damaged one; Error{incompatible} a newer format version.
Seal decode_seal(std::span<const std::byte> bytes);

}  // namespace gradstore::archive
