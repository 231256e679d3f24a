#include "index/snapshot_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/damaged_record.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

SnapshotRow full_row() {
  auto row = sample_row({3, 42}, sample_layout(2));
  row.layout_digest = digest_of(bytes_of("layout"));
  row.info.state = SnapshotState::deleting;
  row.info.state_id = SnapshotId{2, 41};
  row.info.state_file_bytes = 4096;
  row.state_root_digest = digest_of(bytes_of("state"));
  return row;
}

SnapshotRow decoded(const std::string& bytes) { return decode_snapshot_row(bytes_of(bytes)); }

TEST(SnapshotRowTest, EveryFieldRoundTrips) {
  const auto row = full_row();
  const auto copy = decoded(encode(row));
  EXPECT_EQ(copy.info.id, row.info.id);
  EXPECT_EQ(copy.info.state, row.info.state);
  EXPECT_EQ(copy.info.metadata.step, row.info.metadata.step);
  EXPECT_EQ(copy.info.metadata.micro_step, row.info.metadata.micro_step);
  EXPECT_EQ(copy.info.metadata.accumulation_steps, row.info.metadata.accumulation_steps);
  EXPECT_EQ(copy.info.metadata.stage, row.info.metadata.stage);
  EXPECT_EQ(copy.info.metadata.loss_scale, row.info.metadata.loss_scale);
  EXPECT_EQ(copy.info.metadata.user_json, row.info.metadata.user_json);
  EXPECT_EQ(copy.info.rank, row.info.rank);
  EXPECT_EQ(copy.info.world_size, row.info.world_size);
  EXPECT_EQ(copy.info.created_unix_ns, row.info.created_unix_ns);
  EXPECT_EQ(copy.info.num_groups, row.info.num_groups);
  EXPECT_EQ(copy.info.num_params, row.info.num_params);
  EXPECT_EQ(copy.info.num_slices, row.info.num_slices);
  EXPECT_EQ(copy.info.gradient_bytes, row.info.gradient_bytes);
  EXPECT_EQ(copy.info.file_bytes, row.info.file_bytes);
  EXPECT_EQ(copy.info.state_id, row.info.state_id);
  EXPECT_EQ(copy.info.state_file_bytes, row.info.state_file_bytes);
  EXPECT_EQ(copy.layout_digest, row.layout_digest);
  EXPECT_EQ(copy.root_digest, row.root_digest);
  EXPECT_EQ(copy.state_root_digest, row.state_root_digest);
}

TEST(SnapshotRowTest, RowWithoutCompanionStateRoundTrips) {
  const auto row = sample_row({1, 1}, sample_layout(1));
  const auto copy = decoded(encode(row));
  EXPECT_FALSE(copy.info.state_id);
  EXPECT_EQ(copy.state_root_digest, Digest128{});
  EXPECT_EQ(encode(copy), encode(row));
}

TEST(SnapshotRowTest, PinnedIsNotPartOfTheRow) {
  auto row = full_row();
  row.info.pinned = true;
  EXPECT_EQ(encode(row), encode(full_row()));
}

TEST(SnapshotRowTest, UserJsonMayHoldAnyBytes) {
  auto row = full_row();
  row.info.metadata.user_json = std::string("{\"\0\xff\"}", 6);
  EXPECT_EQ(decoded(encode(row)).info.metadata.user_json, row.info.metadata.user_json);
}

TEST(SnapshotRowTest, SizeDoesNotDependOnNumbers) {
  auto row = full_row();
  row.info.metadata.step = 0;
  row.info.rank = 0;
  row.info.gradient_bytes = 0;
  row.info.metadata.stage = Stage::pre_reduce;
  EXPECT_EQ(encode(row).size(), encode(full_row()).size());
}

TEST(SnapshotRowTest, RecordHasTheseBytes) {
  EXPECT_EQ(hex(encode(full_row())),
            "4000000047535257000000003400bc0008005000580006000c00100060001400"
            "1800070068001c0070007800800088009000980020003000a000a800b0004000"
            "34000000000002020100000001000000080000000200000004000000a0000000"
            "64eb7599c0af9685efaf7b3569e22da2c327a242ce72ea5bd2121c1673784317"
            "ccb356a16ce4d54a899465fe1ae3281203000000000000002a00000000000000"
            "5601000000000000000000000000f04000002a36fe9c97170100000000000000"
            "0200000000000000020000000000000010000000000000000020000000000000"
            "020000000000000029000000000000000010000000000000000000000c000000"
            "7b2265706f6368223a20337d00000000");
}

TEST(SnapshotRowTest, DamageIsSurvived) {
  const auto encode_again = [](const SnapshotRow& row) { return encode(row); };
  expect_damage_is_survived(encode(full_row()), decode_snapshot_row, encode_again);
  expect_damage_is_survived(encode(sample_row({1, 1}, {})), decode_snapshot_row, encode_again);
}

TEST(SnapshotRowTest, NewerVersionIsIncompatibleAndNamed) {
  const auto bytes = with_version(encode(full_row()), 7);
  EXPECT_THAT([&] { decoded(bytes); }, fails_with(ErrorCode::incompatible, "has version 7"));
}

TEST(SnapshotRowTest, DamagedIsNeverStored) {
  auto row = full_row();
  row.info.state = SnapshotState::damaged;
  EXPECT_THAT([&] { encode(row); }, fails_with(ErrorCode::invalid_argument, "never stored"));
}

}  // namespace
}  // namespace gradstore::index
