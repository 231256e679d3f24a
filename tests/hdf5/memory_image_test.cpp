#include "hdf5/memory_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "support/fails_with.h"

namespace gradstore::hdf5 {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::fails_with;

constexpr std::byte kZero{0};
constexpr std::byte kOne{1};
constexpr std::byte kTwo{2};

// 100 bytes of metadata at 4096, the records' and slices' bytes from 5000 on.
archive::Placement placement() {
  archive::Placement placement;
  placement.metadata = {4096, 100};
  placement.layout = {5000, 10};
  placement.fingerprints = {5100, 0};
  placement.manifest = {5200, 30};
  placement.slice_extents = {{}, {6000, 40}, {}, {7000, 40}};
  placement.hdf5_end = 7040;
  return placement;
}

TEST(MemoryImageTest, RawDataComesInTheOrderOfThePlacementWithoutEmptyExtents) {
  MemoryImage image(placement(), placement().slice_extents);
  EXPECT_EQ(image.allocate_raw(10), 5000u);
  EXPECT_EQ(image.allocate_raw(30), 5200u);
  EXPECT_EQ(image.allocate_raw(40), 6000u);
  EXPECT_FALSE(image.all_raw_allocated());
  EXPECT_EQ(image.allocate_raw(40), 7000u);
  EXPECT_TRUE(image.all_raw_allocated());
  EXPECT_THAT([&] { image.allocate_raw(40); },
              fails_with(ErrorCode::internal, "after the last dataset"));
}

TEST(MemoryImageTest, RawDataOfAnotherLengthThanTheNextIsRefused) {
  MemoryImage image(placement(), placement().slice_extents);
  EXPECT_THAT([&] { image.allocate_raw(30); },
              fails_with(ErrorCode::internal, "30 bytes of raw data, where extent 0 has 10"));
  EXPECT_EQ(image.allocate_raw(10), 5000u);
}

TEST(MemoryImageTest, MetadataLiesBehindTheSealWithoutGapsAndEndsAtItsLimit) {
  MemoryImage image(placement(), placement().slice_extents);
  EXPECT_EQ(image.allocate_metadata(60), 4096u);
  EXPECT_THAT([&] { image.allocate_metadata(41); },
              fails_with(ErrorCode::internal, "41 bytes of metadata at 4156"));
  EXPECT_EQ(image.allocate_metadata(40), 4156u);
  EXPECT_EQ(image.metadata_bytes(), 100u);
}

TEST(MemoryImageTest, FileIsNewUntilItsUserBlockIsTheSealAndThenEndsWhereThePlacementDoes) {
  MemoryImage image(placement(), placement().slice_extents);
  EXPECT_EQ(image.end(), 0u);
  EXPECT_THAT([&] { image.set_end(512); }, fails_with(ErrorCode::internal, "end the file at 512"));
  image.set_end(4096);
  EXPECT_EQ(image.end(), 7040u);
  EXPECT_THAT([&] { image.set_end(4096); },
              fails_with(ErrorCode::internal, "end the file at 4096"));
}

TEST(MemoryImageTest, WrittenMetadataIsReadBackAndTheRestIsZero) {
  MemoryImage image(placement(), placement().slice_extents);
  image.allocate_metadata(6);
  image.write(4098, std::array{kOne, kTwo});
  std::array<std::byte, 6> read;
  read.fill(kTwo);
  image.read(4096, read);
  EXPECT_THAT(read, ElementsAre(kZero, kZero, kOne, kTwo, kZero, kZero));
  std::array<std::byte, 2> last{kTwo, kTwo};
  image.read(4100, last);
  EXPECT_THAT(last, Each(kZero));
  EXPECT_THAT(image.take_metadata(), ElementsAre(kZero, kZero, kOne, kTwo, kZero, kZero));
}

TEST(MemoryImageTest, NothingIsReadOrWrittenOutsideTheMetadata) {
  MemoryImage image(placement(), placement().slice_extents);
  image.allocate_metadata(6);
  image.allocate_raw(10);
  std::array<std::byte, 2> bytes{};
  for (const std::uint64_t offset : {0ull, 4095ull, 4101ull, 4102ull, 5000ull, ~0ull}) {
    SCOPED_TRACE(offset);
    EXPECT_THAT([&] { image.write(offset, bytes); },
                fails_with(ErrorCode::internal, "write 2 bytes"));
    EXPECT_THAT([&] { image.read(offset, bytes); },
                fails_with(ErrorCode::internal, "read 2 bytes"));
  }
}

}  // namespace
}  // namespace gradstore::hdf5
