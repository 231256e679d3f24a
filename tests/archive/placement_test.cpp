#include "archive/placement.h"

#include <gtest/gtest.h>

#include "sample_store.h"
#include "support/fails_with.h"

namespace gradstore::archive {
namespace {

constexpr PartSizes kSizes{1234, 500, 70'000, 4096};

TEST(PlacementTest, PartsFollowEachOtherAtTheirAlignment) {
  const auto placement = place(testing::sample_layout(), kSizes);
  EXPECT_EQ(placement.metadata, (Extent{4096, 1234}));
  EXPECT_EQ(placement.layout, (Extent{5376, 500}));           // 5330, rounded up to 64
  EXPECT_EQ(placement.fingerprints, (Extent{8192, 70'000}));  // from 64 KiB on: 4096
  EXPECT_EQ(placement.manifest, (Extent{78'208, 4096}));
  EXPECT_EQ(placement.slices.offset % kPageBytes, 0u);
  EXPECT_GE(placement.slices.offset, placement.manifest.end());
}

TEST(PlacementTest, SlicesAreOrderedDisjointAndAligned) {
  const auto layout = testing::sample_layout();
  const auto placement = place(layout, kSizes);
  auto end = placement.slices.offset;
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const auto& extent = placement.slice_extents[i];
    EXPECT_EQ(extent.length, num_bytes(layout.slices[i]));
    if (extent.length == 0) continue;
    EXPECT_EQ(extent.offset % (extent.length >= 65'536 ? 4096 : 64), 0u);
    EXPECT_GE(extent.offset, end);
    end = extent.end();
  }
  EXPECT_EQ(placement.slices.end(), end);
  EXPECT_EQ(placement.hdf5_end, end);
  EXPECT_EQ(placement.file_length % kPageBytes, 0u);
  EXPECT_LT(placement.file_length - end, kPageBytes);
}

TEST(PlacementTest, AFileWithoutSliceBytesEndsWithItsManifest) {
  const auto placement = place(Layout{}, kSizes);
  EXPECT_EQ(placement.slices.length, 0u);
  EXPECT_EQ(placement.hdf5_end, placement.manifest.end());
  EXPECT_EQ(placement.file_length, placement.slices.offset);
}

TEST(PlacementTest, SizesThatOverflowAreCorruptNotWrapped) {
  Layout layout;
  layout.groups = {{}};
  layout.params = {{"p", 0, DType::uint8, Presence::captured, {1ull << 62}}};
  layout.slices = {{0, 0, DType::uint8, {1ull << 62}, 0, 1ull << 62, 0}};
  EXPECT_THAT([&] { place(layout, kSizes); }, testing::fails_with(ErrorCode::corrupt));
  EXPECT_THAT([&] { place({}, {~0ull, 1, 1, 4096}); }, testing::fails_with(ErrorCode::corrupt));
}

TEST(PlacementTest, ManifestSlotsArePowersOfTwoFrom4096) {
  EXPECT_EQ(manifest_slot(0), 4096u);
  EXPECT_EQ(manifest_slot(4096), 4096u);
  EXPECT_EQ(manifest_slot(4097), 8192u);
  EXPECT_EQ(manifest_slot(1'000'000), 1u << 20);
}

}  // namespace
}  // namespace gradstore::archive
