#include "archive/snapshot_rows.h"

namespace gradstore::archive {

index::SnapshotRow make_row(const Seal& gradients, const Layout& layout, const Manifest& manifest,
                            const std::optional<Seal>& state) {
  index::SnapshotRow row;
  auto& info = row.info;
  info.id = gradients.id;
  info.state = SnapshotState::committed;
  info.metadata = manifest.metadata;
  info.rank = gradients.rank;
  info.world_size = gradients.world_size;
  info.created_unix_ns = manifest.created_unix_ns;
  info.num_groups = layout.groups.size();
  info.num_params = layout.params.size();
  info.num_slices = layout.slices.size();
  for (const auto& slice : layout.slices) info.gradient_bytes += num_bytes(slice);
  info.file_bytes = gradients.file_length;
  row.layout_digest = gradients.layout.digest;
  row.root_digest = root_digest(gradients);
  if (state) {
    info.state_id = state->id;
    info.state_file_bytes = state->file_length;
    row.state_root_digest = root_digest(*state);
  }
  return row;
}

void mark_if_damaged(SnapshotInfo& info, const RankPaths& paths, io::FileSystem& files) {
  if (info.state != SnapshotState::committed) return;
  const auto whole = [&files](const io::Path& path, std::uint64_t length) {
    const auto status = files.status(path);
    return status && status->length == length;
  };
  if (!whole(paths.gradients_file(info.id), info.file_bytes) ||
      (info.state_id && !whole(paths.state_file(*info.state_id), info.state_file_bytes))) {
    info.state = SnapshotState::damaged;
  }
}

}  // namespace gradstore::archive
