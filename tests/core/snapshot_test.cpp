#include "gradstore/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace gradstore {
namespace {

constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();

TEST(SnapshotIdTest, TextIsTheStemOfTheFileNames) {
  EXPECT_EQ(to_string(SnapshotId{2, 42}), "0002-00000042");
  EXPECT_EQ(to_string(SnapshotId{12345, 123456789}), "12345-123456789");
}

TEST(SnapshotIdTest, EveryIdSurvivesItsText) {
  for (const SnapshotId id : {SnapshotId{0, 0}, SnapshotId{1, 1}, SnapshotId{9999, 99999999},
                              SnapshotId{10000, 100000000}, SnapshotId{kMax, kMax}}) {
    EXPECT_EQ(parse_snapshot_id(to_string(id)), id) << to_string(id);
  }
}

TEST(SnapshotIdTest, AnyOtherTextIsRefused) {
  for (const std::string text : {"",
                                 "-",
                                 "0002",
                                 "0002-",
                                 "-00000042",
                                 "2-42",
                                 "002-00000042",
                                 "0002-0000042",
                                 "00002-00000042",
                                 "0002-000000042",
                                 "0002-00000042.h5",
                                 "0002-00000042 ",
                                 " 0002-00000042",
                                 "0002_00000042",
                                 "0002--0000042",
                                 "+002-00000042",
                                 "0002-+0000042",
                                 "0002-00000042-1",
                                 "0x02-00000042",
                                 "000a-00000042",
                                 "99999999999999999999-00000001",
                                 "0001-18446744073709551616"}) {
    EXPECT_EQ(parse_snapshot_id(text), std::nullopt) << '"' << text << '"';
  }
  EXPECT_EQ(parse_snapshot_id(std::string_view("0002-00000042\0", 14)), std::nullopt);
}

TEST(SnapshotIdTest, OrderIsByAttemptThenSequence) {
  EXPECT_LT((SnapshotId{1, 9}), (SnapshotId{2, 1}));
  EXPECT_LT((SnapshotId{2, 1}), (SnapshotId{2, 2}));
}

TEST(StageTest, NamesAndDiskCodesAreInverses) {
  const std::string names[] = {"pre_reduce", "post_reduce", "unscaled", "clipped"};
  for (std::uint8_t code = 0; code < 4; ++code) {
    const auto stage = stage_from_code(code);
    ASSERT_TRUE(stage);
    EXPECT_EQ(static_cast<std::uint8_t>(*stage), code);
    EXPECT_EQ(name_of(*stage), names[code]);
    EXPECT_EQ(parse_stage(names[code]), stage);
  }
}

TEST(StageTest, UnknownCodesAndNamesAreNothing) {
  for (int code = 4; code < 256; ++code) {
    EXPECT_EQ(stage_from_code(static_cast<std::uint8_t>(code)), std::nullopt);
  }
  EXPECT_EQ(parse_stage(""), std::nullopt);
  EXPECT_EQ(parse_stage("Clipped"), std::nullopt);
  EXPECT_EQ(parse_stage("invalid"), std::nullopt);
  EXPECT_EQ(name_of(static_cast<Stage>(4)), "invalid");
}

TEST(SnapshotStateTest, NamesAreForPeople) {
  EXPECT_EQ(name_of(SnapshotState::committed), "committed");
  EXPECT_EQ(name_of(SnapshotState::data_gone), "data gone");
  EXPECT_EQ(name_of(static_cast<SnapshotState>(0)), "invalid");
}

}  // namespace
}  // namespace gradstore
