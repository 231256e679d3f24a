// The index of one rank: every snapshot's row, the layouts, and all slices' statistics.
//
// Owned by the rank's process, which alone writes. Others look through IndexView (index_view.h).
// All functions are safe to call concurrently. Column families and keys: schemas/FORMAT.md.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "index/snapshot_row.h"
#include "io/file_system.h"
#include "kernels/fingerprint.h"

namespace gradstore::index {

/// What both the owner and a view can be asked.
/// Errors of all: Error{corrupt} naming key and directory; Error{io}.
class IndexReader {
 public:
  virtual ~IndexReader();

  std::optional<SnapshotRow> find(SnapshotId id) const;
  /// All rows in ascending order of ids, pins filled in.
  std::vector<SnapshotRow> list() const;
  /// The greatest id whose row is `committed`.
  std::optional<SnapshotRow> latest() const;
  /// Ids taken at this point of training, ascending.
  std::vector<SnapshotId> find(std::uint64_t step, std::uint32_t micro_step, Stage stage) const;
  /// Error{corrupt} when a row names a layout that is not there.
  Layout layout(const Digest128& digest) const;
  /// Fingerprints of all slices of `row`, in the layout's order (`layout` is the row's).
  std::vector<kernels::SliceFingerprint> fingerprints(const SnapshotRow& row,
                                                      const Layout& layout) const;
  /// The highest id ever handed out; {0, 0} in a new index.
  SnapshotId high_water() const;

 protected:
  struct Impl;
  explicit IndexReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The writing side.
class Index : public IndexReader {
 public:
  /// Is there an index in `directory`?
  static bool exists(io::FileSystem& files, const io::Path& directory);

  /// Opens, or makes one where there is none.
  /// Errors: {busy} another process has it open; {corrupt}; {incompatible} written by a newer
  /// version; {io}.
  static std::unique_ptr<Index> open(std::shared_ptr<io::FileSystem> files,
                                     const io::Path& directory);
  ~Index() override;

  /// Puts the row, its layout (unless there), its pages of statistics and the high-water id in one
  /// synced batch. On Error{io} the outcome is unknown: reopen() and look.
  void put_durable(const SnapshotRow& row, const Layout& layout,
                   std::span<const kernels::SliceFingerprint> fingerprints);
  /// Each in one synced batch; Error{not_found} for an unknown id.
  void set_state_durable(SnapshotId id, SnapshotState state);
  void set_pinned_durable(SnapshotId id, bool pinned);
  void remove_durable(SnapshotId id);  ///< Forgets row, step entry and statistics.
  /// Never lowers it.
  void raise_high_water_durable(SnapshotId id);

  /// Closes and opens again in this process: the way out of RocksDB's latched errors.
  void reopen();
  /// Flushes to table files and closes, so that the next open replays no log. Idempotent.
  void close();

 private:
  using IndexReader::IndexReader;
};

}  // namespace gradstore::index
