// One rank's part of a store, open for writing: lock, index, files.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/commit.h"
#include "archive/file_plan.h"
#include "archive/file_reader.h"
#include "archive/snapshot_job.h"
#include "archive/store_directory.h"
#include "archive/verify.h"
#include "index/index.h"
#include "io/file_system.h"
#include "io/worker_pool.h"

namespace gradstore::archive {

struct RankArchiveOptions {
  std::shared_ptr<io::FileSystem> files;
  io::Path directory;  ///< The store's.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string run_name;
  std::unique_ptr<SkeletonBuilder> skeletons;
};

/// Safe to use from one writing and several reading threads.
class RankArchive {
 public:
  /// Takes the lock, recovers, and starts a new attempt. Errors: as SnapshotStore::open().
  explicit RankArchive(RankArchiveOptions options);
  ~RankArchive();

  const StoreInfo& store() const { return store_; }
  const RankPaths& paths() const { return paths_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t world_size() const { return world_size_; }
  index::Index& index() { return *index_; }
  io::FileSystem& files() { return *files_; }
  FilePlanner& planner() { return planner_; }

  /// The next id of this attempt; never given out again, whatever becomes of the snapshot.
  SnapshotId take_id() { return {attempt_, ++sequence_}; }

  /// Refuses a snapshot that will not fit beside what is promised to others, naming both figures,
  /// and promises the space; write() or forget() takes the promise back.
  /// Errors: Error{io}.
  void promise_space(std::uint64_t bytes);
  void forget_promise(std::uint64_t bytes) { promised_ -= bytes; }

  /// Writes and commits one snapshot, taking its blocks as they come. Blocking.
  /// Errors: Error{io}, ...; the snapshot is absent then unless the message says "outcome unknown".
  void write(SnapshotJob& job);

  FileReader open_gradients(SnapshotId id);
  FileReader open_state(SnapshotId id);
  /// With damage marked. Nothing for an unknown id, or one that is being deleted.
  std::optional<SnapshotInfo> info(SnapshotId id);
  std::vector<SnapshotInfo> list();
  /// Is every byte of its files as it was written? Damage is logged.
  bool whole(const SnapshotInfo& info);
  /// The newest whole one; nothing when there is no snapshot with data at all. One that is damaged
  /// or cannot be read is passed over with a warning.
  /// Errors: {corrupt} there are some, and none is whole; {io} the same, and one could not be read;
  /// {incompatible} one is of a newer format: passing over it would go back in silence.
  std::optional<SnapshotInfo> latest_good();

  /// Lets go of the lock whatever else fails. Errors: those of index::Index::close().
  void close();

 private:
  // A snapshot whose commit failed in a way that may have left its row or a file.
  struct Unsettled {
    SnapshotId id;
    bool with_state = false;
  };

  void settle();
  void write_and_commit(SnapshotJob& job);
  PendingSnapshot pending_snapshot(SnapshotId id, bool with_state) const;
  void remember_if_unsettled(const SnapshotJob& job);
  std::vector<Damage> damage_of(const SnapshotInfo& info);
  FileReader open_file(const io::Path& path, const FileIdentity& identity);
  std::optional<std::vector<std::byte>> find_metadata(LayoutKind kind, const Digest128& layout,
                                                      std::uint64_t manifest_slot);

  std::shared_ptr<io::FileSystem> files_;
  StoreInfo store_;
  RankPaths paths_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::unique_ptr<io::FileLock> lock_;
  std::unique_ptr<index::Index> index_;
  FilePlanner planner_;
  io::WorkerPool workers_;
  std::optional<Unsettled> unsettled_;  // the writing thread alone looks at it
  std::uint64_t attempt_ = 0;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> promised_ = 0;
};

}  // namespace gradstore::archive
