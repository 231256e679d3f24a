#include "index/statistics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/damaged_record.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

std::vector<kernels::SliceFingerprint> slices(std::size_t count) {
  return sample_fingerprints({2, 5}, sample_layout(count));
}

// The element count is not part of a page.
std::vector<kernels::SliceFingerprint> without_count(std::vector<kernels::SliceFingerprint> all) {
  for (auto& slice : all) slice.statistics.count = 0;
  return all;
}

TEST(StatisticsPageTest, PageRoundTripsBitForBit) {
  for (std::size_t count = 1; count <= kSlicesPerPage; ++count) {
    const auto copy = decode_statistics_page(bytes_of(encode_statistics_page(slices(count))));
    EXPECT_TRUE(same_bits(copy, without_count(slices(count)))) << count;
  }
}

TEST(StatisticsPageTest, FullPageTakesAtMost96BytesASlice) {
  EXPECT_LE(encode_statistics_page(slices(kSlicesPerPage)).size(), 96 * kSlicesPerPage);
}

TEST(StatisticsPageTest, SizeDependsOnTheNumberOfSlicesOnly) {
  const std::vector<kernels::SliceFingerprint> zeros(7);
  EXPECT_EQ(encode_statistics_page(zeros).size(), encode_statistics_page(slices(7)).size());
}

TEST(StatisticsPageTest, RecordHasTheseBytes) {
  const auto two = slices(2);
  EXPECT_EQ(hex(encode_statistics_page(std::span(two).subspan(1))),
            "200000004753504718002c00040008000c001000140018001c00200024002800"
            "1800000001000000a4000000900000007c000000680000005400000040000000"
            "2c000000180000000400000001000000000000000000f07f0000000001000000"
            "9a9999999999b93f000000000100000000000000000014400000000001000000"
            "00000000000000c0000000000100000001000000000000000000000001000000"
            "0200000000000000000000000100000005000000000000000000000001000000"
            "0100000000000000000000001000000004ca86c70a163a158f3f960169f53ca0");
}

TEST(StatisticsPageTest, DamageIsSurvived) {
  expect_damage_is_survived(encode_statistics_page(slices(3)), decode_statistics_page,
                            [](const std::vector<kernels::SliceFingerprint>& page) {
                              return encode_statistics_page(page);
                            });
}

TEST(StatisticsPageTest, NewerVersionIsIncompatibleAndNamed) {
  const auto bytes = with_version(encode_statistics_page(slices(1)), 2);
  EXPECT_THAT([&] { decode_statistics_page(bytes_of(bytes)); },
              fails_with(ErrorCode::incompatible, "has version 2"));
}

TEST(StatisticsPageTest, NoSliceAndTooManyAreRefused) {
  EXPECT_THAT([] { encode_statistics_page({}); }, fails_with(ErrorCode::internal, "1 to 16"));
  EXPECT_THAT([] { encode_statistics_page(slices(17)); },
              fails_with(ErrorCode::internal, "1 to 16"));
}

}  // namespace
}  // namespace gradstore::index
