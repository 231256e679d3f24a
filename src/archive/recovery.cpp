// What open() does about whatever a crash has left behind.
//
//   temporary file                                removed
//   row marked `deleting`                         its files are removed, then the row
//   sealed file above the high-water id, no row   every digest checked: whole -> its row is put;
//                                                 damaged -> set aside as *.damaged, with a warning
//   sealed file at or below it, no row            removed: its failure was told as "outcome
//   unknown",
//                                                 and later snapshots have been committed since
//   state file that no row refers to              removed
//   row whose file is missing or short            stays, and list() shows it as damaged
//
// The high-water id ends at or above the ids of all files seen, so none is ever given out again.

#include "archive/recovery.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "archive/file_reader.h"
#include "archive/snapshot_rows.h"
#include "archive/verify.h"
#include "core/log.h"
#include "gradstore/error.h"

namespace gradstore::archive {

namespace {

// One snapshot at a time is between its rename and its row; a few more may have ended as
// "outcome unknown". Beyond that the index is not this store's newest.
constexpr std::size_t kMostAdopted = 8;

constexpr std::string_view kSuffix = ".h5";

std::optional<SnapshotId> id_of_file(const std::string& name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  return parse_snapshot_id(std::string_view(name).substr(0, name.size() - kSuffix.size()));
}

void remove_temporaries(const io::Path& directory, io::FileSystem& files) {
  bool removed = false;
  for (const auto& name : files.list(directory)) {
    if (!name.ends_with(".tmp")) continue;
    files.remove_file(directory / name);
    removed = true;
    log::info("removed a temporary file that a crash left",
              {{"file", (directory / name).string()}});
  }
  if (removed) files.sync_directory(directory);
}

void finish_deletions(const RankPaths& paths, io::FileSystem& files, index::Index& index) {
  for (const auto& row : index.list()) {
    if (row.info.state != SnapshotState::deleting) continue;
    for (const auto& file : {paths.gradients_file(row.info.id), paths.state_file(row.info.id)}) {
      if (files.status(file)) files.remove_file(file);
      files.sync_directory(file.parent_path());
    }
    index.remove_durable(row.info.id);
  }
}

// Puts the row that commit() would have put, or says no when a file is not whole.
bool adopt(SnapshotId id, const RankPaths& paths, const StoreInfo& store, std::uint32_t rank,
           io::FileSystem& files, index::Index& index) {
  const auto path = paths.gradients_file(id);
  const FileIdentity identity{LayoutKind::gradients, store.uuid, rank, id};
  auto verification = verify_file(files, path, identity);
  if (verification.damage.empty()) {
    const FileReader reader(files, path, identity);
    std::optional<Seal> state;
    if (const auto state_id = reader.manifest().state_id) {
      const FileIdentity state_identity{LayoutKind::state, store.uuid, rank, *state_id};
      verification = verify_file(files, paths.state_file(*state_id), state_identity);
      if (verification.damage.empty()) {
        state = FileReader(files, paths.state_file(*state_id), state_identity).seal();
      }
    }
    if (verification.damage.empty()) {
      index.put_durable(make_row(reader.seal(), reader.layout(), reader.manifest(), state),
                        reader.layout(), reader.fingerprints());
      log::info("adopted a snapshot that was written but not yet in the index",
                {{"snapshot", to_string(id)}});
      return true;
    }
  }
  log::warn("a snapshot file without index row is damaged: set aside as *.damaged",
            {{"file", verification.damage.front().file.string()},
             {"damage", verification.damage.front().what}});
  return false;
}

void set_aside(SnapshotId id, const RankPaths& paths, io::FileSystem& files) {
  for (const auto& file : {paths.gradients_file(id), paths.state_file(id)}) {
    if (files.status(file)) files.rename(file, file.string() + ".damaged");
    files.sync_directory(file.parent_path());
  }
}

std::vector<SnapshotId> files_without_row(const RankPaths& paths, io::FileSystem& files,
                                          const index::Index& index) {
  std::vector<SnapshotId> ids;
  for (const auto& name : files.list(paths.snapshots())) {
    const auto id = id_of_file(name);
    if (id && !index.find(*id)) ids.push_back(*id);
  }
  std::ranges::sort(ids);
  return ids;
}

void remove_unreferenced_state(const RankPaths& paths, io::FileSystem& files,
                               const index::Index& index) {
  std::set<SnapshotId> referenced;
  for (const auto& row : index.list()) {
    if (row.info.state_id) referenced.insert(*row.info.state_id);
  }
  bool removed = false;
  for (const auto& name : files.list(paths.state())) {
    const auto id = id_of_file(name);
    if (!id || referenced.contains(*id)) continue;
    files.remove_file(paths.state() / name);
    removed = true;
    log::info("removed a state file that no snapshot refers to",
              {{"file", (paths.state() / name).string()}});
  }
  if (removed) files.sync_directory(paths.state());
}

}  // namespace

void refuse_lost_index(const RankPaths& paths, io::FileSystem& files) {
  if (index::Index::exists(files, paths.index())) return;
  for (const auto& name : files.list(paths.snapshots())) {
    if (!id_of_file(name)) continue;
    throw Error(ErrorCode::corrupt,
                paths.index().string() +
                    ": the index is missing, but there are snapshot files in " +
                    paths.snapshots().string() +
                    ". Nothing was changed; `grad-inspect repair` rebuilds the index from them");
  }
}

void recover(const RankPaths& paths, const StoreInfo& store, std::uint32_t rank,
             io::FileSystem& files, index::Index& index) {
  const auto high_water = index.high_water();
  const auto orphans = files_without_row(paths, files, index);
  const auto above = static_cast<std::size_t>(
      std::ranges::count_if(orphans, [&](SnapshotId id) { return id > high_water; }));
  if (above > kMostAdopted) {
    throw Error(ErrorCode::corrupt,
                paths.index().string() + ": " + std::to_string(above) +
                    " snapshot files are newer than the index: it is not this store's "
                    "latest. Nothing was changed; `grad-inspect repair` rebuilds it");
  }

  remove_temporaries(paths.snapshots(), files);
  remove_temporaries(paths.state(), files);
  finish_deletions(paths, files, index);

  for (const auto id : orphans) {
    if (id <= high_water) {
      files.remove_file(paths.gradients_file(id));
      files.sync_directory(paths.snapshots());
      log::warn("removed a snapshot file whose commit had failed", {{"snapshot", to_string(id)}});
    } else if (!adopt(id, paths, store, rank, files, index)) {
      set_aside(id, paths, files);
    }
  }
  remove_unreferenced_state(paths, files, index);
  if (!orphans.empty()) index.raise_high_water_durable(orphans.back());
}

}  // namespace gradstore::archive
