#include "archive/rank_archive.h"

#include <functional>

#include "archive/file_writer.h"
#include "archive/recovery.h"
#include "archive/snapshot_rows.h"
#include "core/log.h"

namespace gradstore::archive {

namespace {

constexpr std::size_t kWritesInFlight = 4;
// Beside the files themselves: log and table files of the index, directory blocks.
constexpr std::uint64_t kSpaceForIndex = 32u << 20;

Seal identity_of(const SnapshotJob& job, const StoreInfo& store) {
  Seal seal;
  seal.store = store.uuid;
  seal.id = job.manifest.id;
  seal.rank = job.manifest.rank;
  seal.world_size = job.manifest.world_size;
  seal.step = job.manifest.metadata.step;
  seal.micro_step = job.manifest.metadata.micro_step;
  seal.stage = job.manifest.metadata.stage;
  return seal;
}

void warn_of(SnapshotId id, const Damage& damage) {
  log::warn("passed over a damaged snapshot",
            {{"snapshot", to_string(id)}, {"file", damage.file.string()}, {"damage", damage.what}});
}

void take_blocks(FileJob& file, FileWriter& writer) {
  while (auto block = file.blocks.pop()) writer.add(std::move(*block));
  if (file.blocks.abandoned()) {
    throw Error(ErrorCode::invalid_argument,
                "the capture was given up: snapshot() threw the reason");
  }
}

}  // namespace

RankArchive::RankArchive(RankArchiveOptions options)
    : files_(std::move(options.files)),
      store_(open_or_create_store(*files_, options.directory, options.run_name)),
      paths_(rank_paths(options.directory, options.rank)),
      rank_(options.rank),
      world_size_(options.world_size),
      planner_(std::move(options.skeletons), std::bind_front(&RankArchive::find_metadata, this)),
      workers_(kWritesInFlight) {
  files_->create_directory(paths_.root);
  files_->sync_directory(options.directory);
  lock_ = files_->lock(paths_.lock());
  files_->create_directory(paths_.snapshots());
  files_->create_directory(paths_.state());
  refuse_lost_index(paths_, *files_);
  index_ = index::Index::open(files_, paths_.index());
  files_->sync_directory(paths_.root);
  recover(paths_, store_, rank_, *files_, *index_);

  // Durable before the first id is given out: ids of an attempt that left nothing are not reused.
  attempt_ = index_->high_water().attempt + 1;
  index_->raise_high_water_durable({attempt_, 0});
}

RankArchive::~RankArchive() = default;

void RankArchive::promise_space(std::uint64_t bytes) {
  const auto promised = promised_.fetch_add(bytes);
  const auto needed = promised + bytes + kSpaceForIndex;
  std::uint64_t free = 0;
  try {
    free = files_->free_bytes(paths_.root);
  } catch (...) {
    forget_promise(bytes);
    throw;
  }
  if (free >= needed) return;
  forget_promise(bytes);
  throw Error(ErrorCode::io, paths_.root.string() + ": a snapshot of " + std::to_string(bytes) +
                                 " bytes needs " + std::to_string(needed) +
                                 " bytes free (with index and snapshots "
                                 "in flight) and there are " +
                                 std::to_string(free) +
                                 ": free some space or remove old snapshots");
}

void RankArchive::write(SnapshotJob& job) {
  try {
    write_and_commit(job);
  } catch (...) {
    job.gradients.blocks.cancel();
    if (job.state) job.state->blocks.cancel();
    remember_if_unsettled(job);
    try {
      throw;
    } catch (const Error& error) {
      throw Error(error.code(), describe_snapshot(job.manifest) + ": " + describe(error));
    } catch (const std::exception& error) {
      throw Error(ErrorCode::internal, describe_snapshot(job.manifest) + ": " + error.what());
    }
  }
}

PendingSnapshot RankArchive::pending_snapshot(SnapshotId id, bool with_state) const {
  const auto pending_file = [](const io::Path& final) {
    return PendingFile{temporary_of(final), final};
  };
  PendingSnapshot pending;
  pending.gradients = pending_file(paths_.gradients_file(id));
  if (with_state) pending.state = pending_file(paths_.state_file(id));
  return pending;
}

// Whether a file is left is what tells: commit() removes them unless it cannot know or cannot act.
void RankArchive::remember_if_unsettled(const SnapshotJob& job) {
  const Unsettled left{job.manifest.id, job.state != nullptr};
  const auto pending = pending_snapshot(left.id, left.with_state);
  try {
    for (const auto& file : {pending.gradients, pending.state.value_or(pending.gradients)}) {
      if (files_->status(file.temporary) || files_->status(file.final)) unsettled_ = left;
    }
  } catch (const Error&) {
    unsettled_ = left;  // Settling it looks again.
  }
}

// Decides what a failed commit left in doubt before the next snapshot is written: an index that
// fails for hours leaves one file without a row, and not thousands that no open() would believe.
void RankArchive::settle() {
  if (!unsettled_) return;
  const auto [id, with_state] = *unsettled_;
  try {
    index_->reopen();  // Shows whether RocksDB's log has the row, and clears a latched error.
    if (!index_->find(id)) discard(pending_snapshot(id, with_state), *files_);
  } catch (const Error& error) {
    throw Error(error.code(), "nothing is written until it is known what became of snapshot " +
                                  to_string(id) + ", whose commit failed: " + describe(error));
  }
  unsettled_.reset();
}

void RankArchive::write_and_commit(SnapshotJob& job) {
  const auto id = job.manifest.id;
  auto pending = pending_snapshot(id, job.state != nullptr);
  pending.layout = &job.gradients.plan->layout;

  bool promised = true;
  const auto keep_promise = [&] {
    if (std::exchange(promised, false)) forget_promise(job.bytes_total());
  };
  std::optional<index::SnapshotRow> row;
  std::vector<kernels::SliceFingerprint> fingerprints;
  try {
    settle();
    // Both are created first, so that a disk without room says so before anything is written.
    std::optional<FileWriter> state_writer;
    if (job.state) {
      state_writer.emplace(*files_, workers_, pending.state->temporary, job.state->plan,
                           job.bytes_written);
    }
    FileWriter writer(*files_, workers_, pending.gradients.temporary, job.gradients.plan,
                      job.bytes_written);
    keep_promise();

    std::optional<Seal> state_seal;
    if (job.state) {
      take_blocks(*job.state, *state_writer);
      state_seal = state_writer->finish(identity_of(job, store_), job.state->manifest);
    }
    take_blocks(job.gradients, writer);
    const auto seal = writer.finish(identity_of(job, store_), job.gradients.manifest);
    row = make_row(seal, job.gradients.plan->layout, job.manifest, state_seal);
    fingerprints = writer.fingerprints();
  } catch (const Error& error) {
    keep_promise();
    discard_and_rethrow(error, pending, *files_);
  } catch (const std::exception& error) {
    keep_promise();
    discard_and_rethrow(Error(ErrorCode::internal, error.what()), pending, *files_);
  }
  pending.fingerprints = fingerprints;
  commit(pending, *row, *files_, *index_);
  log::info("snapshot committed", {{"snapshot", to_string(id)},
                                   {"step", std::to_string(job.manifest.metadata.step)},
                                   {"micro_step", std::to_string(job.manifest.metadata.micro_step)},
                                   {"bytes", std::to_string(job.bytes_total())}});
}

// The newest snapshot's files have the layout that the next one's will have, if any have.
std::optional<std::vector<std::byte>> RankArchive::find_metadata(LayoutKind kind,
                                                                 const Digest128& layout,
                                                                 std::uint64_t manifest_slot) {
  try {
    const auto row = index_->latest();
    if (!row || (kind == LayoutKind::state && !row->info.state_id)) return std::nullopt;
    if (kind == LayoutKind::gradients && row->layout_digest != layout) return std::nullopt;
    const auto file =
        kind == LayoutKind::gradients ? open_gradients(row->info.id) : open_state(row->info.id);
    const auto& seal = file.seal();
    if (seal.layout.digest != layout || seal.manifest.extent.length != manifest_slot)
      return std::nullopt;
    std::vector<std::byte> metadata(seal.metadata.extent.length);
    file.read(seal.metadata.extent.offset, metadata);
    if (digest_of(metadata) != seal.metadata.digest) return std::nullopt;
    return metadata;
  } catch (const Error& error) {
    // Only a shortcut: what is wrong with that file is told by whoever reads it.
    log::debug("no skeleton taken from the newest snapshot", {{"error", error.what()}});
    return std::nullopt;
  }
}

// Of a snapshot that the index lists: a file that is not there is damage.
FileReader RankArchive::open_file(const io::Path& path, const FileIdentity& identity) {
  try {
    return {*files_, path, identity};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::corrupt,
                path.string() +
                    ": the file is missing, and the index lists its snapshot; latest_good() finds "
                    "the newest whole one");
  }
}

FileReader RankArchive::open_gradients(SnapshotId id) {
  if (!info(id)) {
    throw Error(ErrorCode::not_found,
                "There is no snapshot " + to_string(id) + " in " + paths_.root.string());
  }
  return open_file(paths_.gradients_file(id), {LayoutKind::gradients, store_.uuid, rank_, id});
}

FileReader RankArchive::open_state(SnapshotId id) {
  const auto snapshot = info(id);
  if (!snapshot || !snapshot->state_id) {
    throw Error(ErrorCode::not_found,
                (snapshot ? "Snapshot " + to_string(id) + " has no companion state in "
                          : "There is no snapshot " + to_string(id) + " in ") +
                    paths_.root.string());
  }
  const auto state_id = *snapshot->state_id;
  return open_file(paths_.state_file(state_id), {LayoutKind::state, store_.uuid, rank_, state_id});
}

std::optional<SnapshotInfo> RankArchive::info(SnapshotId id) {
  auto row = index_->find(id);
  if (!row || row->info.state == SnapshotState::deleting) return std::nullopt;
  mark_if_damaged(row->info, paths_, *files_);
  return row->info;
}

std::vector<SnapshotInfo> RankArchive::list() {
  std::vector<SnapshotInfo> all;
  for (auto& row : index_->list()) {
    if (row.info.state == SnapshotState::deleting) continue;
    mark_if_damaged(row.info, paths_, *files_);
    all.push_back(std::move(row.info));
  }
  return all;
}

std::vector<Damage> RankArchive::damage_of(const SnapshotInfo& info) {
  auto verification = verify_file(*files_, paths_.gradients_file(info.id),
                                  {LayoutKind::gradients, store_.uuid, rank_, info.id});
  if (verification.damage.empty() && info.state_id) {
    verification = verify_file(*files_, paths_.state_file(*info.state_id),
                               {LayoutKind::state, store_.uuid, rank_, *info.state_id});
  }
  return std::move(verification.damage);
}

bool RankArchive::whole(const SnapshotInfo& info) {
  if (info.state == SnapshotState::data_gone || info.state == SnapshotState::deleting) return false;
  const auto damage = damage_of(info);
  if (damage.empty()) return true;
  warn_of(info.id, damage.front());
  return false;
}

std::optional<SnapshotInfo> RankArchive::latest_good() {
  std::optional<Error> newest;  // what is wrong with the newest one that has data
  std::size_t passed_over = 0;
  const auto all = list();
  for (auto info = all.rbegin(); info != all.rend(); ++info) {
    if (info->state == SnapshotState::data_gone) continue;
    std::optional<Error> wrong;
    try {
      const auto damage = damage_of(*info);
      if (damage.empty()) return *info;
      warn_of(info->id, damage.front());
      wrong.emplace(ErrorCode::corrupt, damage.front().file.string() + ": " + damage.front().what);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io) throw;
      log::warn("passed over a snapshot that cannot be read",
                {{"snapshot", to_string(info->id)}, {"error", error.what()}});
      wrong = error;
    }
    ++passed_over;
    // An unreadable one may be whole: that outweighs damage, which is final.
    if (!newest || (newest->code() == ErrorCode::corrupt && wrong->code() == ErrorCode::io))
      newest = wrong;
  }
  if (!newest) return std::nullopt;
  throw Error(newest->code(), paths_.root.string() + ": none of " + std::to_string(passed_over) +
                                  " snapshots is whole; " + newest->what() +
                                  ". `grad-inspect verify` lists all damage");
}

void RankArchive::close() {
  const auto lock = std::move(lock_);  // Dropped at the end, whatever the index says.
  if (index_) index_->close();
}

}  // namespace gradstore::archive
