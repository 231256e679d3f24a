// Rows made from files, and files held against rows.
#pragma once

#include <optional>

#include "archive/manifest.h"
#include "archive/seal.h"
#include "archive/store_directory.h"
#include "index/snapshot_row.h"

namespace gradstore::archive {

/// A committed snapshot's row. `state`: the seal of its companion state file, if it has one.
index::SnapshotRow make_row(const Seal& gradients, const Layout& layout, const Manifest& manifest,
                            const std::optional<Seal>& state);

/// Marks the row `damaged` when a file that it names is missing or not as long as it was.
void mark_if_damaged(SnapshotInfo& info, const RankPaths& paths, io::FileSystem& files);

}  // namespace gradstore::archive
