#include "index/snapshot_row.h"

#include <schemas/snapshot_row_generated.h>

#include <cstring>

#include "gradstore/error.h"
#include "index/record.h"

namespace gradstore::index {

namespace {

constexpr RecordKind kKind{"Snapshot row", "GSRW", 1};

fb::Hash128 encode(const Digest128& digest) {
  fb::Hash128 hash;
  std::memcpy(&hash, digest.bytes.data(), digest.bytes.size());
  return hash;
}

Digest128 decode_digest(const VerifiedRecord& record, const fb::Hash128* hash) {
  if (hash == nullptr) record.refuse("a digest is missing");
  Digest128 digest;
  std::memcpy(digest.bytes.data(), hash, digest.bytes.size());
  return digest;
}

SnapshotState decode_state(const VerifiedRecord& record, std::uint8_t code) {
  const auto state = static_cast<SnapshotState>(code);
  switch (state) {
    case SnapshotState::committed:
    case SnapshotState::deleting:
    case SnapshotState::data_gone: return state;
    case SnapshotState::damaged: break;
  }
  record.refuse("unknown state " + std::to_string(code));
}

SnapshotMetadata decode_metadata(const VerifiedRecord& record, const fb::SnapshotRow& root) {
  SnapshotMetadata metadata;
  metadata.step = root.step();
  metadata.micro_step = root.micro_step();
  metadata.accumulation_steps = root.accumulation_steps();
  const auto stage = stage_from_code(root.stage());
  if (!stage) record.refuse("unknown stage " + std::to_string(root.stage()));
  metadata.stage = *stage;
  metadata.loss_scale = root.loss_scale();
  if (root.user_json() == nullptr) record.refuse("the user's JSON is missing");
  metadata.user_json = root.user_json()->str();
  return metadata;
}

}  // namespace

std::string encode(const SnapshotRow& row) {
  const auto& info = row.info;
  if (info.state == SnapshotState::damaged) {
    throw Error(ErrorCode::invalid_argument, "Snapshot row: damage is found, never stored");
  }
  require_encodable(kKind, info.metadata.user_json.size());

  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  const auto user_json = builder.CreateString(info.metadata.user_json);
  const auto layout_digest = encode(row.layout_digest);
  const auto root_digest = encode(row.root_digest);
  const auto state_root_digest = encode(row.state_root_digest);
  const auto state_id = info.state_id.value_or(SnapshotId{});
  fb::FinishSnapshotRowBuffer(
      builder,
      fb::CreateSnapshotRow(
          builder, kKind.version, info.id.attempt, info.id.sequence,
          static_cast<std::uint8_t>(info.state), info.rank, info.world_size, info.metadata.step,
          info.metadata.micro_step, info.metadata.accumulation_steps,
          static_cast<std::uint8_t>(info.metadata.stage), info.metadata.loss_scale, user_json,
          info.created_unix_ns, info.num_groups, info.num_params, info.num_slices,
          info.gradient_bytes, info.file_bytes, &layout_digest, &root_digest, state_id.attempt,
          state_id.sequence, info.state_file_bytes, info.state_id ? &state_root_digest : nullptr));
  return finished_record(builder);
}

SnapshotRow decode_snapshot_row(std::span<const std::byte> bytes) {
  const VerifiedRecord record(bytes, kKind);
  const auto& root = record.root<fb::SnapshotRow>();

  SnapshotRow row;
  auto& info = row.info;
  info.id = {root.attempt(), root.sequence()};
  info.state = decode_state(record, root.state());
  info.metadata = decode_metadata(record, root);
  info.rank = root.rank();
  info.world_size = root.world_size();
  info.created_unix_ns = root.created_unix_ns();
  info.num_groups = root.num_groups();
  info.num_params = root.num_params();
  info.num_slices = root.num_slices();
  info.gradient_bytes = root.gradient_bytes();
  info.file_bytes = root.file_bytes();
  row.layout_digest = decode_digest(record, root.layout_digest());
  row.root_digest = decode_digest(record, root.root_digest());
  if (root.state_attempt() != 0) {
    info.state_id = SnapshotId{root.state_attempt(), root.state_sequence()};
    info.state_file_bytes = root.state_file_bytes();
    row.state_root_digest = decode_digest(record, root.state_root_digest());
  }
  return row;
}

}  // namespace gradstore::index
