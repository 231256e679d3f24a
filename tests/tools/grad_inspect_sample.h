// Small stores with known values, written through the real path, without LibTorch.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "archive/async_writer.h"
#include "archive/rank_archive.h"

namespace gradstore::testing {

/// Three groups, of which one has no params; params of all kinds of dtype and name: with a terminal
/// escape in it, and one that is no UTF-8; one of two slices with padding, an empty one, an absent
/// one; NaN and infinities.
Layout inspect_layout();

/// The elements of slice `number`, known from here alone.
std::vector<std::byte> inspect_bytes(const Layout& layout, std::size_t number);

/// Opens a rank of the store for writing, with libhdf5's skeletons.
std::unique_ptr<archive::RankArchive> open_for_writing(const io::Path& directory,
                                                       std::uint32_t rank = 0,
                                                       std::uint32_t world_size = 1);

struct InspectSnapshot {
  std::uint64_t step = 0;
  std::uint32_t micro_step = 4;
  Stage stage = Stage::post_reduce;
  bool with_state = false;
  std::int64_t created_unix_ns = 1'764'556'164'000'000'000;  ///< 2025-12-01 02:29:24 UTC
};

/// Writes one snapshot through the background writer and waits until it is committed.
SnapshotId save(archive::RankArchive& archive, const InspectSnapshot& snapshot);

}  // namespace gradstore::testing
