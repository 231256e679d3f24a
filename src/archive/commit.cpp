// How a snapshot becomes visible.
//
// Invariant: a snapshot is committed if and only if the index holds its row.
//
//   1. The temporary files are synced: slices, records, skeleton and seal are all in them.
//   2. The state file, if there is one, is renamed to its final name; its directory is synced.
//   3. The same for the gradients' file.
//   4. The row is put, synced. This is the commit point.
//
// A crash before 3 leaves temporary files, and perhaps a state file that nothing refers to:
// recover() removes them. A crash before 4 leaves a sealed file that no row names: recover() checks
// its digests and adopts it. The row comes last: a row without its file is a broken promise, a
// file without its row is not.
//
// A failure before 4 removes the files, durably, before anybody is told: what was reported as
// failed must not come back. Where that too fails, the message says that the outcome is unknown.
//
// A failure of 4 leaves the outcome unknown: RocksDB may or may not have the row in its log, and
// latches the error. So the index is closed and opened again, asked, and given the row once more.

#include "archive/commit.h"

#include "core/log.h"

namespace gradstore::archive {

namespace {

void make_visible(const PendingFile& file, io::FileSystem& files) {
  files.rename(file.temporary, file.final);
  files.sync_directory(file.final.parent_path());
}

void put_row(const PendingSnapshot& pending, const index::SnapshotRow& row, index::Index& index) {
  try {
    index.put_durable(row, *pending.layout, pending.fingerprints);
  } catch (const Error& error) {
    log::warn("index row failed, reopening the index",
              {{"snapshot", to_string(row.info.id)}, {"error", describe(error)}});
    index.reopen();
    if (!index.find(row.info.id)) index.put_durable(row, *pending.layout, pending.fingerprints);
  }
}

bool remove_if_there(const io::Path& path, io::FileSystem& files) {
  if (!files.status(path)) return false;
  files.remove_file(path);
  return true;
}

}  // namespace

void commit(const PendingSnapshot& pending, const index::SnapshotRow& row, io::FileSystem& files,
            index::Index& index) {
  try {
    if (pending.state) make_visible(*pending.state, files);

    make_visible(pending.gradients, files);
  } catch (const Error& error) {
    discard_and_rethrow(error, pending, files);
  }

  try {
    put_row(pending, row, index);
  } catch (const Error& error) {
    throw Error(error.code(),
                "Snapshot " + to_string(row.info.id) + " is written (" +
                    pending.gradients.final.string() +
                    ") but its index row failed: outcome unknown until the next open, "
                    "which adopts the file if it is whole: " +
                    describe(error));
  }
}

void discard(const PendingSnapshot& pending, io::FileSystem& files) {
  for (const auto* file : {&pending.gradients, pending.state ? &*pending.state : nullptr}) {
    if (file == nullptr) continue;
    const bool temporary = remove_if_there(file->temporary, files);
    const bool final = remove_if_there(file->final, files);
    if (temporary || final) files.sync_directory(file->final.parent_path());
  }
}

void discard_and_rethrow(const Error& error, const PendingSnapshot& pending,
                         io::FileSystem& files) {
  try {
    discard(pending, files);
  } catch (const Error& second) {
    throw Error(error.code(), std::string(error.what()) + "; then removing " +
                                  pending.gradients.final.string() + " failed as well (" +
                                  second.what() + "): outcome unknown until the next open");
  }
  throw error;
}

}  // namespace gradstore::archive
