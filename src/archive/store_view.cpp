#include "archive/store_view.h"

#include "archive/snapshot_rows.h"

namespace gradstore::archive {

RankView::RankView(std::shared_ptr<io::FileSystem> files, const StoreInfo& store,
                   const io::Path& directory, std::uint32_t rank)
    : files_(std::move(files)),
      store_(store.uuid),
      paths_(rank_paths(directory, rank)),
      rank_(rank),
      index_(index::IndexView::open(paths_.index())) {}

std::vector<index::SnapshotRow> RankView::list() {
  index_->catch_up();
  auto rows = index_->list();
  for (auto& row : rows) mark_if_damaged(row.info, paths_, *files_);
  return rows;
}

FileReader RankView::open_gradients(SnapshotId id) const {
  return {*files_, paths_.gradients_file(id), identity(LayoutKind::gradients, id)};
}

FileReader RankView::open_state(SnapshotId state_id) const {
  return {*files_, paths_.state_file(state_id), identity(LayoutKind::state, state_id)};
}

Verification RankView::verify_gradients(SnapshotId id) const {
  return verify_file(*files_, paths_.gradients_file(id), identity(LayoutKind::gradients, id));
}

Verification RankView::verify_state(SnapshotId state_id) const {
  return verify_file(*files_, paths_.state_file(state_id), identity(LayoutKind::state, state_id));
}

StoreView::StoreView(const io::Path& directory, std::shared_ptr<io::FileSystem> files)
    : files_(std::move(files)), directory_(directory), info_(read_store(*files_, directory)) {}

}  // namespace gradstore::archive
