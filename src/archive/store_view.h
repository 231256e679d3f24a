// A store as an onlooker sees it: no lock, no write, beside a live writer or after a crash.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/file_reader.h"
#include "archive/store_directory.h"
#include "archive/verify.h"
#include "index/index_view.h"

namespace gradstore::archive {

/// One rank of it.
class RankView {
 public:
  /// Errors: as index::IndexView::open().
  RankView(std::shared_ptr<io::FileSystem> files, const StoreInfo& store, const io::Path& directory,
           std::uint32_t rank);

  std::uint32_t rank() const { return rank_; }
  const RankPaths& paths() const { return paths_; }
  index::IndexView& index() { return *index_; }

  /// Committed snapshots and what is left of others, ascending, damage marked.
  std::vector<index::SnapshotRow> list();

  FileReader open_gradients(SnapshotId id) const;
  FileReader open_state(SnapshotId state_id) const;
  Verification verify_gradients(SnapshotId id) const;
  Verification verify_state(SnapshotId state_id) const;

 private:
  FileIdentity identity(LayoutKind kind, SnapshotId id) const { return {kind, store_, rank_, id}; }

  std::shared_ptr<io::FileSystem> files_;
  StoreUuid store_;
  RankPaths paths_;
  std::uint32_t rank_;
  std::unique_ptr<index::IndexView> index_;
};

class StoreView {
 public:
  /// Errors: as read_store().
  explicit StoreView(const io::Path& directory,
                     std::shared_ptr<io::FileSystem> files = io::posix_file_system());

  const io::Path& directory() const { return directory_; }
  const StoreInfo& info() const { return info_; }
  std::vector<std::uint32_t> ranks() const { return list_ranks(*files_, directory_); }
  RankView open_rank(std::uint32_t rank) const { return {files_, info_, directory_, rank}; }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  StoreInfo info_;
};

}  // namespace gradstore::archive
