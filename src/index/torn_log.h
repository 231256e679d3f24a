// Note [Torn log]
//
// RocksDB appends each of our batches to a log and syncs it before we acknowledge it. So at a crash
// at most one record is not yet durable, the last one, and of that one any part may have reached
// the disk. None of RocksDB's recovery modes fits:
//
//   - kTolerateCorruptedTailRecords accepts a log that ends early, but after a power failure the
//     length may be on the disk and the bytes not: it then refuses to open.
//   - kPointInTimeRecovery accepts anything: bytes that rotted in the middle of the log would take
//     the acknowledged records behind them along, in silence.
//
// We use the first. If it refuses, we look at the log ourselves: when no whole record starts behind
// the damage, the damage is in the last record. That one is cut off and the opening repeated. When
// one does, acknowledged records are at stake, and the index is corrupt. (A last record that was
// acknowledged and rotted cannot be told from a torn one; the archive adopts its snapshot file.)
#pragma once

#include <cstdint>
#include <optional>

#include "io/file_system.h"

namespace gradstore::index {

struct TornLog {
  io::Path path;
  std::uint64_t whole_bytes = 0;  ///< Up to here the log is whole; the rest is the torn record.
};

/// The newest log of the index in `directory` if its last record, and nothing else, is torn.
/// Errors: Error{io}.
std::optional<TornLog> find_torn_log(io::FileSystem& files, const io::Path& directory);

}  // namespace gradstore::index
