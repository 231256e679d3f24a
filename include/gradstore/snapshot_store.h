// Snapshots of a GradientStore on disk.
#pragma once

#include <ATen/core/ATen_fwd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradstore/error.h"
#include "gradstore/snapshot.h"

namespace gradstore {

class GradientStore;
namespace io {
class FileSystem;
}

/// What a resume needs besides gradients: parameters, optimizer state, RNG state, counters.
struct CompanionState {
  /// Named tensors, in any order, on any device; names are any bytes, each used once.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  /// Any JSON of the caller's.
  std::string json = "{}";

  /// The tensor called `name`. Errors: Error{not_found}.
  const at::Tensor& at(const std::string& name) const;
};

/// What snapshot() does while the staging memory is full of snapshots that are still being written.
enum class WhenFull {
  wait,  ///< Wait for memory: training is held up, nothing is skipped.
  fail,  ///< Throw Error{busy} at once; nothing is captured.
};

struct StoreOptions {
  std::string run_name = {};     ///< For people; kept when the store is created. Default: none.
  std::uint32_t rank = 0;        ///< This process's rank.
  std::uint32_t world_size = 1;  ///< Ranks of the job.
  /// Memory for captured but unwritten bytes. Default: 0 = as much as two snapshots need, at most a
  /// quarter of RAM. A snapshot larger than this is captured in waves, at the speed of the disk.
  std::uint64_t staging_bytes = 0;
  WhenFull when_full = WhenFull::wait;
  bool verify_on_read = true;  ///< Check each slice's digest whenever it is read. Default: yes.
  /// Called once for each snapshot that failed: that training is never stopped by us. With it,
  /// failures of the environment (every code but {invalid_argument}) are told here and by the
  /// ticket, and snapshot() and close() throw none of them: a snapshot() that cannot even start
  /// (disk too full, staging memory full, no memory left) calls this and returns a ticket that has
  /// already failed. Each snapshot() tries afresh, for as long as it takes.
  ///
  /// Called on the writer thread, after the snapshot's files were removed, or on the thread that
  /// calls snapshot() or close(); so perhaps on two threads at once. The id is {0, 0} where close()
  /// fails and no snapshot is concerned. Must not call the store. What it throws is logged.
  /// Default: none; failures are thrown, see Ticket::wait().
  std::function<void(const SnapshotId&, const Error&)> on_error = {};
  /// Where files go. Default: the operating system. For tests of what happens when a disk fails.
  std::shared_ptr<io::FileSystem> file_system = {};
};

/// A snapshot on its way to the disk. Cheap to copy; safe to use from any thread. Dropping it
/// changes nothing: the snapshot is written all the same.
///
/// A ticket belongs to the process of its store: in a forked child, where nobody writes, wait(),
/// wait_for() and done() throw Error{invalid_argument} at once.
class Ticket {
 public:
  SnapshotId id() const;
  /// Waits until the snapshot is committed. Errors: what the writing threw (Error{io}, ...).
  /// Without StoreOptions::on_error the next snapshot() or close() throws it too unless it was told
  /// here first.
  void wait() const;
  /// The same with a limit; false when it is still being written after `timeout`.
  bool wait_for(std::chrono::milliseconds timeout) const;
  bool done() const;                  ///< Committed or failed.
  std::uint64_t bytes_total() const;  ///< Bytes of the snapshot's files; 0 if it never started.
  std::uint64_t bytes_written() const;

  struct Shared;
  explicit Ticket(std::shared_ptr<Shared> shared);

 private:
  std::shared_ptr<Shared> shared_;
};

struct RestoreOptions {
  /// Accept params of the snapshot that the target does not know, and the other way round. Shapes,
  /// dtypes and groups of those on both sides must still agree. Default: strict.
  bool partial = false;
};

/// What restore() left out; both empty unless RestoreOptions::partial.
struct RestoreReport {
  /// Registered in the target, not in the snapshot: left without gradient.
  std::vector<std::string> missing;
  /// In the snapshot, not registered in the target: left out.
  std::vector<std::string> unexpected;
};

/// One rank's store, open for writing. One process per rank directory; safe to call from several
/// threads.
///
/// exit() closes a store that is still open, as its destruction would, wherever the object lies.
///
/// In a forked child every call but directory() throws Error{invalid_argument}, and neither
/// destruction nor exit() touches a file or a lock of the store: the parent goes on as if there
/// were no child. Nor can such a child open a store of its own, because RocksDB does not survive a
/// fork: exec a new program, or fork before the first open(). For the same reason the child's
/// exit() ends at the point of the first open(): atexit() handlers and static objects that are
/// older are left out.
class SnapshotStore {
 public:
  /// Opens the store in `directory`, making it if there is none, and finishes what a crash left
  /// half-done: removes temporary files, adopts a whole file that was not yet in the index.
  ///
  /// Errors: {busy} another process writes this rank (the message names its pid); {incompatible}
  ///         the folder holds something else, or a newer version's store; {corrupt} damage that
  ///         open() must not paper over; {io}, also when the folder cannot be written (grad-inspect
  ///         reads it all the same); {invalid_argument} rank >= world_size, an empty path, or a
  ///         forked child (see above).
  static std::unique_ptr<SnapshotStore> open(const std::filesystem::path& directory,
                                             StoreOptions options = {});

  /// Waits for snapshots in flight, then closes. Cannot report: call close() first to know.
  ~SnapshotStore();
  SnapshotStore(const SnapshotStore&) = delete;
  SnapshotStore& operator=(const SnapshotStore&) = delete;

  /// Captures all gradients of `gradients`, `metadata` and, if given, `state`, and returns when all
  /// is copied: the caller may change any of it at once. Writing goes on in the background;
  /// snapshots are committed in the order of their ids.
  ///
  /// Units:  whatever the store holds at metadata.stage; nothing is scaled or converted.
  /// Errors: {invalid_argument} a tensor that cannot be stored or a param without a name, naming
  ///         it; {busy} as WhenFull says, or LibTorch has no memory left; {io} too little disk
  ///         space (naming bytes needed and free), or the failure of an earlier snapshot that
  ///         nobody has been told of. Nothing is captured then. With StoreOptions::on_error only
  ///         {invalid_argument} is thrown.
  /// Cost:   one memcpy of all bytes (one copy from the device); peak memory
  ///         StoreOptions::staging_bytes.
  Ticket snapshot(const GradientStore& gradients, const SnapshotMetadata& metadata);
  Ticket snapshot(const GradientStore& gradients, const SnapshotMetadata& metadata,
                  const CompanionState& state);

  /// All snapshots in ascending order of ids. Marked as damaged where a file is missing or has not
  /// its length; what is in the files is checked by whoever reads them, and by latest_good().
  std::vector<SnapshotInfo> list() const;
  /// The committed snapshot with the greatest id (not the greatest step), damaged or not.
  std::optional<SnapshotInfo> latest() const;
  /// The newest one whose files are whole: every byte is read and checked. Those that are damaged
  /// or cannot be read are passed over with a warning that names them. Nothing when there is no
  /// snapshot at all; where there are some and none is whole it throws, so that nobody starts over
  /// by mistake.
  /// Errors: {corrupt} none is whole; {io} the same, and one could not be read; {incompatible} one
  /// has a newer format.
  std::optional<SnapshotInfo> latest_good() const;
  /// The newest attempt's snapshot of this point of training.
  std::optional<SnapshotInfo> find(std::uint64_t step, std::uint32_t micro_step, Stage stage) const;

  /// Replaces all gradients of `gradients` by the snapshot's: same groups, order, slices, bits.
  ///
  /// Params are matched by name, never by order or id; `gradients` must have them registered.
  /// Nothing is changed unless all of it was read and checked.
  ///
  /// Errors: {not_found} no such snapshot; {incompatible} names (missing and unexpected ones are
  ///         listed), shapes, dtypes, groups, world size or partitioning differ; {corrupt} naming
  ///         file, param and slice; {io}.
  RestoreReport restore(SnapshotId id, GradientStore& gradients, RestoreOptions options = {}) const;

  /// The companion state of snapshot `id`, on the CPU. Errors: {not_found} no snapshot or no state;
  /// {corrupt}; {io}.
  CompanionState read_state(SnapshotId id) const;

  /// One slice: shape and dtype as stored, padding included; a contiguous CPU tensor of its own
  /// memory. Errors: {not_found} snapshot, param or slice; {corrupt} naming file and slice; {io}.
  at::Tensor read(SnapshotId id, const std::string& param, std::uint32_t slice = 0) const;

  /// Keeps a snapshot from being removed by retention, durably. Errors: {not_found}.
  void pin(SnapshotId id);
  void unpin(SnapshotId id);

  /// Waits for snapshots in flight and closes. A snapshot() on another thread comes whole before it
  /// or throws Error{invalid_argument}. Errors: the failure of a snapshot that nobody was told of,
  /// or {io} of the index, which loses nothing; the store is closed all the same. Idempotent.
  void close();

  const std::filesystem::path& directory() const;

 private:
  class Impl;
  explicit SnapshotStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradstore
