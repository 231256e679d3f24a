// One snapshot's row in the index.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/digest.h"
#include "gradstore/snapshot.h"

namespace gradstore::index {

struct SnapshotRow {
  SnapshotInfo info;            ///< `pinned` is not part of the row; `damaged` is never stored.
  Digest128 layout_digest;      ///< Files the row under its layout.
  Digest128 root_digest;        ///< Of the gradient file.
  Digest128 state_root_digest;  ///< Of the state file; zero without one.
};

std::string encode(const SnapshotRow& row);

/// Errors: Error{corrupt} for bytes that are not a whole row; Error{incompatible} for a newer
/// version.
SnapshotRow decode_snapshot_row(std::span<const std::byte> bytes);

}  // namespace gradstore::index
