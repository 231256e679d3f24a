// How a snapshot becomes visible, and how it goes.
#pragma once

#include <optional>
#include <span>

#include "core/layout.h"
#include "gradstore/error.h"
#include "index/index.h"
#include "io/file_system.h"
#include "kernels/fingerprint.h"

namespace gradstore::archive {

/// A file that is whole and durable under its temporary name.
struct PendingFile {
  io::Path temporary;
  io::Path final;
};

/// What is to be committed, besides the row itself.
struct PendingSnapshot {
  std::optional<PendingFile> state;
  PendingFile gradients;
  const Layout* layout = nullptr;
  std::span<const kernels::SliceFingerprint> fingerprints;
};

/// Commits `pending` under `row`.
/// Errors: Error{io}: the snapshot is absent and its files are gone, unless the message says that
/// the outcome is unknown until the next open.
void commit(const PendingSnapshot& pending, const index::SnapshotRow& row, io::FileSystem& files,
            index::Index& index);

/// Removes the files of `pending` under either name, durably.
/// Errors: Error{io}.
void discard(const PendingSnapshot& pending, io::FileSystem& files);

/// Does discard() and throws `error`; when removing
/// fails too, an error of the same code that says so and that the outcome is unknown.
[[noreturn]] void discard_and_rethrow(const Error& error, const PendingSnapshot& pending,
                                      io::FileSystem& files);

}  // namespace gradstore::archive
