#include "hdf5/skeleton_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sample_layouts.h"
#include "support/fails_with.h"

namespace gradstore::hdf5 {
namespace {

using testing::fails_with;
using testing::gradients_of_every_kind;
using testing::LayoutMaker;
using testing::params_of_one_slice;
using testing::sample_sizes;
using testing::state_of_every_kind;

archive::Skeleton build(const Layout& layout) {
  return make_skeleton_builder()->build(layout, sample_sizes());
}

std::uint64_t number_at(const std::vector<std::byte>& bytes, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::vector<Layout> layouts_of_every_kind() {
  return {Layout{}, gradients_of_every_kind(), state_of_every_kind(), params_of_one_slice(1000)};
}

TEST(SkeletonBuilderTest, PlacementIsThatOfTheMetadatasSize) {
  for (const auto& layout : layouts_of_every_kind()) {
    const auto skeleton = build(layout);
    auto sizes = sample_sizes();
    sizes.metadata = skeleton.metadata.size();
    const auto placement = archive::place(layout, sizes);
    EXPECT_EQ(skeleton.placement.metadata, (archive::Extent{4096, skeleton.metadata.size()}));
    EXPECT_EQ(skeleton.placement.slice_extents, placement.slice_extents);
    EXPECT_EQ(skeleton.placement.manifest, placement.manifest);
    EXPECT_EQ(skeleton.placement.file_length, placement.file_length);
  }
}

TEST(SkeletonBuilderTest, SuperblockIsOfHdf5V18AndNamesSealAndEndOfTheFile) {
  for (const auto& layout : layouts_of_every_kind()) {
    const auto skeleton = build(layout);
    const std::string signature =
        "\x89HDF\r\n\x1a\n\x02\x08\x08";  // Version 2, offsets of 8 bytes.
    ASSERT_GT(skeleton.metadata.size(), 48u);
    EXPECT_EQ(std::memcmp(skeleton.metadata.data(), signature.data(), signature.size()), 0);
    EXPECT_EQ(number_at(skeleton.metadata, 12), archive::kSealBytes);
    EXPECT_EQ(number_at(skeleton.metadata, 28), skeleton.placement.hdf5_end);
  }
}

TEST(SkeletonBuilderTest, BuildingTwiceGivesEqualBytes) {
  for (const auto& layout : layouts_of_every_kind()) {
    EXPECT_EQ(build(layout).metadata, build(layout).metadata);
  }
}

TEST(SkeletonBuilderTest, BuildersOnManyThreadsGiveEqualBytes) {
  const auto expected = build(gradients_of_every_kind()).metadata;
  std::vector<std::future<std::vector<std::byte>>> builds;
  for (int i = 0; i < 4; ++i) {
    builds.push_back(
        std::async(std::launch::async, [] { return build(gradients_of_every_kind()).metadata; }));
  }
  for (auto& result : builds) EXPECT_EQ(result.get(), expected);
}

TEST(SkeletonBuilderTest, SizeOfRecordsMovesPartsButLeavesTheMetadatasSize) {
  const auto layout = gradients_of_every_kind();
  const auto skeleton = build(layout);
  auto sizes = sample_sizes();
  sizes.metadata = 7;  // Ignored.
  sizes.layout = 0;
  sizes.manifest = std::uint64_t{1} << 20;
  const auto other = make_skeleton_builder()->build(layout, sizes);
  EXPECT_EQ(other.metadata.size(), skeleton.metadata.size());
  EXPECT_NE(other.metadata, skeleton.metadata);
  EXPECT_EQ(other.placement.manifest.length, std::uint64_t{1} << 20);
}

TEST(SkeletonBuilderTest, MetadataStaysSmallWhateverTheSlicesHold) {
  const auto large = build(params_of_one_slice(1000, std::uint64_t{1} << 40));
  EXPECT_GT(large.placement.file_length, std::uint64_t{1000} << 42);
  EXPECT_EQ(large.metadata.size(), build(params_of_one_slice(1000)).metadata.size());
  EXPECT_LT(large.metadata.size(), 250u * 1000u);
}

// The failure in the middle leaves nothing behind in libhdf5.
TEST(SkeletonBuilderTest, BuildAfterAFailedOneGivesEqualBytes) {
  const auto expected = build(gradients_of_every_kind()).metadata;
  const auto twice = LayoutMaker().group(1).param("w", Presence::absent).group(1).layout();
  EXPECT_THAT([&] { build(twice); },
              fails_with(ErrorCode::invalid_argument, "\"1\" in \"/gradients\""));
  EXPECT_EQ(build(gradients_of_every_kind()).metadata, expected);
}

TEST(SkeletonBuilderTest, NamesThatMeetInOneGroupAreRefusedAndNothingIsPrinted) {
  ::testing::internal::CaptureStderr();
  const auto gradients = LayoutMaker()
                             .group(3)
                             .param("a/b")
                             .slice(DType::int8, {1})
                             .param("a/b", Presence::absent)
                             .layout();
  EXPECT_THAT([&] { build(gradients); },
              fails_with(ErrorCode::invalid_argument, "\"a%2Fb\" in \"/gradients/3\""));
  const auto state = LayoutMaker(LayoutKind::state)
                         .group(0)
                         .param("step")
                         .slice(DType::int64, {})
                         .param("step")
                         .slice(DType::int64, {})
                         .layout();
  EXPECT_THAT([&] { build(state); },
              fails_with(ErrorCode::invalid_argument, "\"step\" in \"/state\""));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(SkeletonBuilderTest, StateTensorHasExactlyOneSlice) {
  const auto none = LayoutMaker(LayoutKind::state).group(0).param("w", Presence::absent).layout();
  EXPECT_THAT([&] { build(none); }, fails_with(ErrorCode::corrupt, "\"w\" has 0 slices"));
  const auto two = LayoutMaker(LayoutKind::state)
                       .group(0)
                       .param("w")
                       .slice(DType::int8, {1})
                       .slice(DType::int8, {1})
                       .layout();
  EXPECT_THAT([&] { build(two); }, fails_with(ErrorCode::corrupt, "\"w\" has 2 slices"));
}

TEST(SkeletonBuilderTest, LayoutThatBreaksItsOwnRulesIsCorrupt) {
  auto layout = params_of_one_slice(2);
  layout.slices[1].param = 2;
  EXPECT_THAT([&] { build(layout); }, fails_with(ErrorCode::corrupt, "Layout record"));
}

TEST(SkeletonBuilderTest, FileLongerThanFilesCanBeIsCorrupt) {
  const auto layout = params_of_one_slice(3, std::uint64_t{1} << 59);
  EXPECT_THAT([&] { build(layout); }, fails_with(ErrorCode::corrupt, "longer than files can be"));
}

TEST(SkeletonBuilderTest, MoreDimensionsThanHdf5TakesAreRefusedByName) {
  const auto with_rank = [](std::size_t rank) {
    return LayoutMaker()
        .group(0)
        .param("deep")
        .slice(DType::int8, std::vector<std::uint64_t>(rank, 1))
        .layout();
  };
  EXPECT_THAT([&] { build(with_rank(33)); },
              fails_with(ErrorCode::invalid_argument, "\"deep\" has 33"));
  EXPECT_GT(build(with_rank(32)).metadata.size(), 0u);
}

}  // namespace
}  // namespace gradstore::hdf5
