// The store's folder: its paths and store.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/seal.h"
#include "io/file_system.h"

namespace gradstore::archive {

/// Contents of store.json: written once, never changed.
struct StoreInfo {
  StoreUuid uuid{};
  std::string run_name;
};

/// "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"
std::string to_text(const StoreUuid& uuid);

/// Paths of one rank's folder.
struct RankPaths {
  io::Path root;
  io::Path lock() const { return root / "lock"; }
  io::Path index() const { return root / "index"; }
  io::Path snapshots() const { return root / "snapshots"; }
  io::Path state() const { return root / "state"; }
  io::Path gradients_file(SnapshotId id) const { return snapshots() / (to_string(id) + ".h5"); }
  io::Path state_file(SnapshotId id) const { return this->state() / (to_string(id) + ".h5"); }
};

/// The temporary neighbour under which `file` is written.
io::Path temporary_of(const io::Path& file);

RankPaths rank_paths(const io::Path& store, std::uint32_t rank);

/// Ranks that have a folder, ascending.
std::vector<std::uint32_t> list_ranks(io::FileSystem& files, const io::Path& store);

/// Errors: {not_found} no such folder; {incompatible} not a store, or a newer version's; {corrupt}
/// store.json.
StoreInfo read_store(io::FileSystem& files, const io::Path& store);

/// Makes the folder and store.json where they are missing; any rank may come first, one wins.
/// Errors: {incompatible} the folder holds something else, or a newer store; {corrupt} store.json,
/// also when it alone is missing; {io}.
StoreInfo open_or_create_store(io::FileSystem& files, const io::Path& store,
                               const std::string& run_name);

}  // namespace gradstore::archive
