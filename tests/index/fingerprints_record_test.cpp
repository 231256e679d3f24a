#include "index/fingerprints_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/damaged_record.h"
#include "index/key_codec.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

std::vector<kernels::SliceFingerprint> slices(std::size_t count) {
  return sample_fingerprints({2, 5}, sample_layout(count));
}

std::vector<kernels::SliceFingerprint> decoded(std::span<const std::byte> bytes,
                                               std::size_t count) {
  return decode_fingerprints(bytes, sample_layout(count).slices);
}

TEST(FingerprintsRecordTest, RecordRoundTripsBitForBit) {
  for (const std::size_t count : {0, 1, 16, 17, 1000}) {
    const auto copy = decoded(bytes_of(encode_fingerprints(slices(count))), count);
    EXPECT_TRUE(same_bits(copy, slices(count))) << count;
  }
}

TEST(FingerprintsRecordTest, FullPageTakesAtMost96BytesASlice) {
  EXPECT_LE(encode_fingerprints(slices(kSlicesPerPage)).size(), 96 * kSlicesPerPage);
}

TEST(FingerprintsRecordTest, SizeDependsOnTheNumberOfSlicesOnly) {
  const std::vector<kernels::SliceFingerprint> zeros(7);
  EXPECT_EQ(encode_fingerprints(zeros).size(), encode_fingerprints(slices(7)).size());
}

TEST(FingerprintsRecordTest, RecordHasTheseBytes) {
  const auto two = slices(2);
  EXPECT_EQ(hex(encode_fingerprints(std::span(two).subspan(1))),
            "200000004753465018002c00040008000c001000140018001c00200024002800"
            "1800000001000000a4000000900000007c000000680000005400000040000000"
            "2c000000180000000400000001000000000000000000f07f0000000001000000"
            "9a9999999999b93f000000000100000000000000000014400000000001000000"
            "00000000000000c0000000000100000001000000000000000000000001000000"
            "0200000000000000000000000100000005000000000000000000000001000000"
            "0100000000000000000000001000000004ca86c70a163a158f3f960169f53ca0");
}

TEST(FingerprintsRecordTest, DamageIsSurvived) {
  expect_damage_is_survived(
      encode_fingerprints(slices(3)),
      [](std::span<const std::byte> bytes) { return decoded(bytes, 3); },
      [](const std::vector<kernels::SliceFingerprint>& page) { return encode_fingerprints(page); });
}

TEST(FingerprintsRecordTest, NewerVersionIsIncompatibleAndNamed) {
  const auto bytes = with_version(encode_fingerprints(slices(1)), 2);
  EXPECT_THAT([&] { decoded(bytes_of(bytes), 1); },
              fails_with(ErrorCode::incompatible, "has version 2"));
}

TEST(FingerprintsRecordTest, AnotherNumberOfSlicesIsCorrupt) {
  const auto bytes = encode_fingerprints(slices(3));
  for (const std::size_t count : {0, 2, 4}) {
    EXPECT_THAT([&] { decoded(bytes_of(bytes), count); },
                fails_with(ErrorCode::corrupt, "disagree"));
  }
}

}  // namespace
}  // namespace gradstore::index
