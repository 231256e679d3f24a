#include "index/key_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "index/damaged_record.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
const std::vector<std::uint64_t> kNumbers = {0,   1,     127,   128,      255,
                                             256, 65535, 65536, 1u << 31, kMax};

Digest128 counting_digest() {
  Digest128 digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) digest.bytes[i] = std::byte(i);
  return digest;
}

TEST(KeyCodecTest, SnapshotKeyHasTheseBytes) {
  EXPECT_EQ(hex(encode(SnapshotId{1, 0x0203})), "00000000000000010000000000000203");
}

TEST(KeyCodecTest, StepKeyHasTheseBytes) {
  const StepKey key{{0x0102, 0x03, Stage::clipped}, {4, 5}};
  EXPECT_EQ(hex(encode(key)),
            "0000000000000102"
            "00000003"
            "03"
            "0000000000000004"
            "0000000000000005");
}

TEST(KeyCodecTest, PageKeyHasTheseBytes) {
  const PageKey key{counting_digest(), 0x0a0b, {4, 5}};
  EXPECT_EQ(hex(encode(key)),
            "000102030405060708090a0b0c0d0e0f"
            "00000a0b"
            "0000000000000004"
            "0000000000000005");
}

TEST(KeyCodecTest, NumberHasTheseBytes) { EXPECT_EQ(hex(encode_number(0x01020304)), "01020304"); }

TEST(KeyCodecTest, KeysRoundTrip) {
  for (const auto a : kNumbers) {
    for (const auto b : kNumbers) {
      const SnapshotId id{a, b};
      EXPECT_EQ(decode_snapshot_key(encode(id)), id);
      const StepKey step{{b, static_cast<std::uint32_t>(a), Stage::unscaled}, id};
      EXPECT_EQ(decode_step_key(encode(step)), step);
      const PageKey page{counting_digest(), static_cast<std::uint32_t>(b), id};
      EXPECT_EQ(decode_page_key(encode(page)), page);
    }
  }
  EXPECT_EQ(decode_number(encode_number(0xfffefdfc)), 0xfffefdfc);
}

TEST(KeyCodecTest, SnapshotKeysSortInNumericOrder) {
  for (const auto a : kNumbers) {
    for (const auto b : kNumbers) {
      EXPECT_EQ(encode(SnapshotId{a, 9}) < encode(SnapshotId{b, 3}), a == b ? false : a < b);
      EXPECT_EQ(encode(SnapshotId{9, a}) < encode(SnapshotId{9, b}), a < b);
    }
  }
}

TEST(KeyCodecTest, StepKeysSortInNumericOrder) {
  std::vector<StepKey> keys;
  for (const std::uint64_t step : {9u, 256u}) {
    for (const std::uint32_t micro_step : {0u, 300u}) {
      for (const auto stage : {Stage::pre_reduce, Stage::clipped}) {
        for (const std::uint64_t attempt : {1u, 256u}) {
          keys.push_back({{step, micro_step, stage}, {attempt, 512 - attempt}});
        }
      }
    }
  }
  for (const auto& a : keys) {
    for (const auto& b : keys) EXPECT_EQ(encode(a) < encode(b), a < b);
  }
}

TEST(KeyCodecTest, HistoryOfAPageIsOneRange) {
  const auto layout = counting_digest();
  const auto first = encode(PageKey{layout, 2, {0, 0}});
  const auto last = encode(PageKey{layout, 2, {kMax, kMax}});
  EXPECT_LT(encode(PageKey{layout, 1, {kMax, kMax}}), first);
  EXPECT_LT(first, encode(PageKey{layout, 2, {1, 1}}));
  EXPECT_LT(encode(PageKey{layout, 2, {1, 1}}), last);
  EXPECT_LT(last, encode(PageKey{layout, 3, {0, 0}}));
}

TEST(KeyCodecTest, TrainingPointIsThePrefixOfItsStepKeys) {
  const TrainingPoint point{5, 6, Stage::post_reduce};
  EXPECT_TRUE(encode(StepKey{point, {1, 2}}).starts_with(encode(point)));
  EXPECT_EQ(encode(point).size(), 13u);
}

// Decodes every length but the right one.
template <class Decode>
void expect_one_length(std::size_t right_length, Decode decode) {
  for (std::size_t length = 0; length < 64; ++length) {
    if (length == right_length) continue;
    EXPECT_THAT([&] { decode(std::string(length, '\1')); },
                fails_with(ErrorCode::corrupt, "instead of " + std::to_string(right_length)));
  }
}

TEST(KeyCodecTest, KeyOfAnotherLengthIsCorrupt) {
  expect_one_length(16, decode_snapshot_key);
  expect_one_length(29, decode_step_key);
  expect_one_length(36, decode_page_key);
  expect_one_length(4, decode_number);
}

TEST(KeyCodecTest, UnknownStageIsCorrupt) {
  auto bytes = encode(StepKey{{5, 6, Stage::clipped}, {1, 2}});
  bytes[12] = 4;
  EXPECT_THAT([&] { decode_step_key(bytes); }, fails_with(ErrorCode::corrupt, "stage"));
}

}  // namespace
}  // namespace gradstore::index
