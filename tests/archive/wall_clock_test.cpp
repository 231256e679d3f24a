// A clock that is wrong, or that goes backwards: times are told, and nothing is decided by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "sample_store.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

using testing::holds;
using testing::sample_options;
using testing::save;

class WallClockTest : public ::testing::Test {
 protected:
  void open() {
    archive_.reset();
    archive_ = std::make_unique<RankArchive>(sample_options(dir_ / "store"));
  }

  testing::TempDir dir_;
  std::unique_ptr<RankArchive> archive_;
};

TEST_F(WallClockTest, OrderLatestAndFindGoByIdsWhereTimeRunsBackwards) {
  open();
  std::vector<SnapshotId> ids;
  std::int64_t time = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    if (seed == 3) open();  // a new attempt, on a machine whose clock is behind
    time -= 1'000'000'000'000;
    ids.push_back(save(*archive_, {.step = seed % 2, .seed = seed, .created_unix_ns = time}));
  }
  open();
  EXPECT_TRUE(std::ranges::is_sorted(ids));
  const auto all = archive_->list();
  ASSERT_EQ(all.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(all[i].id, ids[i]);
    EXPECT_EQ(all[i].created_unix_ns, -1'000'000'000'000 * static_cast<std::int64_t>(i + 1));
  }
  EXPECT_EQ(archive_->index().latest()->info.id, ids[5]);
  EXPECT_EQ(archive_->latest_good()->id, ids[5]);
  EXPECT_EQ(archive_->index().find(0, 3, Stage::post_reduce),
            (std::vector<SnapshotId>{ids[0], ids[2], ids[4]}));
  EXPECT_GT(archive_->take_id(), ids[5]);
}

TEST_F(WallClockTest, RecoveryAdoptsAFileFromTheFutureOrThePast) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  for (const auto time : {kMax, std::int64_t{0}, kMin}) {
    SCOPED_TRACE(time);
    std::filesystem::remove_all(dir_ / "store");
    std::filesystem::remove_all(dir_ / "old-index");
    open();
    const auto first = save(*archive_, {.seed = 1, .created_unix_ns = 5});
    archive_->close();
    archive_.reset();
    // The index as it was before the second save: what a kill before its row leaves.
    const auto index = rank_paths(dir_ / "store", 0).index();
    std::filesystem::copy(index, dir_ / "old-index", std::filesystem::copy_options::recursive);
    open();
    const auto second = save(*archive_, {.seed = 2, .created_unix_ns = time});
    archive_.reset();
    std::filesystem::remove_all(index);
    std::filesystem::rename(dir_ / "old-index", index);

    open();
    EXPECT_TRUE(holds(*archive_, first, 1));
    EXPECT_TRUE(holds(*archive_, second, 2));
    EXPECT_EQ(archive_->info(second)->created_unix_ns, time);
    EXPECT_EQ(archive_->latest_good()->id, second);
    EXPECT_GT(archive_->take_id(), second);
  }
}

}  // namespace
}  // namespace gradstore::archive
