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

std::string encoded(std::span<const kernels::SliceFingerprint> fingerprints) {
  return encode_fingerprints(fingerprints, sample_layout(fingerprints.size()).slices);
}

std::vector<kernels::SliceFingerprint> decoded(std::span<const std::byte> bytes,
                                               std::size_t count) {
  return decode_fingerprints(bytes, sample_layout(count).slices);
}

TEST(FingerprintsRecordTest, RecordRoundTripsBitForBit) {
  for (const std::size_t count : {0, 1, 16, 17, 1000}) {
    const auto copy = decoded(bytes_of(encoded(slices(count))), count);
    EXPECT_TRUE(same_bits(copy, slices(count))) << count;
  }
}

TEST(FingerprintsRecordTest, FullPageTakesAtMost96BytesASlice) {
  EXPECT_LE(encoded(slices(kSlicesPerPage)).size(), 96 * kSlicesPerPage);
}

TEST(FingerprintsRecordTest, SizeDependsOnTheNumberOfSlicesOnly) {
  const std::vector<kernels::SliceFingerprint> zeros(7);
  EXPECT_EQ(encoded(zeros).size(), encoded(slices(7)).size());
}

TEST(FingerprintsRecordTest, RecordHasTheseBytes) {
  const auto two = slices(2);
  EXPECT_EQ(hex(encoded(std::span(two).subspan(1))),
            "28000000475346500000000000001a003000040008000c001000140018001c00"
            "2000240028002c001a00000001000000ac000000980000008400000070000000"
            "5c0000004800000034000000200000000c000000040000000000000001000000"
            "000000000000f07f00000000010000009a9999999999b93f0000000001000000"
            "0000000000001440000000000100000000000000000000c00000000001000000"
            "0100000000000000000000000100000002000000000000000000000001000000"
            "0500000000000000000000000100000001000000000000000000000010000000"
            "04ca86c70a163a158f3f960169f53ca0");
}

TEST(FingerprintsRecordTest, DamageIsSurvived) {
  expect_damage_is_survived(
      encoded(slices(3)), [](std::span<const std::byte> bytes) { return decoded(bytes, 3); },
      [](const std::vector<kernels::SliceFingerprint>& page) { return encoded(page); });
}

TEST(FingerprintsRecordTest, NewerVersionIsIncompatibleAndNamed) {
  const auto bytes = with_version(encoded(slices(1)), 2);
  EXPECT_THAT([&] { decoded(bytes_of(bytes), 1); },
              fails_with(ErrorCode::incompatible, "has version 2"));
}

TEST(FingerprintsRecordTest, EntriesOfSparseSlicesAreKeptAndGiveTheirCount) {
  auto specs = sample_layout(4).slices;
  specs[1].shape = {50, 3};
  specs[1].sparse = SparseSpec{1, 8};
  specs[3].sparse = SparseSpec{1, 2};
  specs[2].dtype = DType::complex64;
  auto fingerprints = slices(4);
  fingerprints[1].entries = 5;
  const auto bytes = encode_fingerprints(fingerprints, specs);
  const auto copy = decode_fingerprints(bytes_of(bytes), specs);
  EXPECT_EQ(copy[0].statistics.count, 3u);
  EXPECT_EQ(copy[1].entries, 5u);
  EXPECT_EQ(copy[1].statistics.count, 15u);
  EXPECT_EQ(copy[2].statistics.count, 6u);
  EXPECT_EQ(copy[3].statistics.count, 0u);
  specs[1].sparse->capacity = 4;
  EXPECT_THAT([&] { decode_fingerprints(bytes_of(bytes), specs); },
              fails_with(ErrorCode::corrupt, "more entries than room"));
  specs[3].sparse.reset();
  EXPECT_THAT([&] { decode_fingerprints(bytes_of(bytes), specs); },
              fails_with(ErrorCode::corrupt, "disagree"));
}

TEST(FingerprintsRecordTest, AnotherNumberOfSlicesIsCorrupt) {
  const auto bytes = encoded(slices(3));
  for (const std::size_t count : {0, 2, 4}) {
    EXPECT_THAT([&] { decoded(bytes_of(bytes), count); },
                fails_with(ErrorCode::corrupt, "disagree"));
  }
}

}  // namespace
}  // namespace gradstore::index
