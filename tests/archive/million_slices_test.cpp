#include <gtest/gtest.h>

#include "archive/sample_store.h"
#include "archive/verify.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

// The default limits of FlatBuffers' verifier refuse a million tables, and 32-bit offsets end
// early.
TEST(MillionSlicesTest, AMillionSlicesAreSavedVerifiedAndReadBack) {
  Layout layout;
  layout.groups = {{0}};
  constexpr std::uint32_t kSlices = 1'000'000;
  layout.params.reserve(kSlices);
  layout.slices.reserve(kSlices);
  for (std::uint32_t p = 0; p < kSlices; ++p) {
    layout.params.push_back(
        {"layers." + std::to_string(p) + ".weight", 0, DType::float32, Presence::captured, {2}});
    SliceSpec slice;
    slice.param = p;
    slice.shape = {2};
    slice.end = 2;
    layout.slices.push_back(slice);
  }
  testing::TempDir dir;
  RankArchive archive(testing::sample_options(dir / "store"));
  const auto id = testing::save(archive, {.seed = 3, .layout = layout});
  const auto reader = archive.open_gradients(id);
  ASSERT_EQ(reader.layout(), layout);
  const auto verification = verify_file(archive.files(), archive.paths().gradients_file(id),
                                        {LayoutKind::gradients, archive.store().uuid, 0, id});
  EXPECT_TRUE(verification.damage.empty());
  EXPECT_EQ(verification.slices_checked, kSlices);
  for (const std::size_t number : {0u, 1u, 15u, 16u, 499'999u, kSlices - 1}) {
    std::vector<std::byte> bytes(8);
    reader.read_slice(number, bytes);
    EXPECT_EQ(bytes, testing::sample_bytes(layout, number, 3)) << number;
  }
  const auto row = archive.index().find(id);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->info.num_slices, kSlices);
  EXPECT_EQ(archive.index().fingerprints(*row, layout).size(), kSlices);
}

}  // namespace
}  // namespace gradstore::archive
