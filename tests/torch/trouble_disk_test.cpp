// A disk that is full, fills up, cannot be written, or fails for hours.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "archive/store_view.h"
#include "gradstore/snapshot_store.h"
#include "sample_gradients.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/second_process.h"
#include "support/small_disk.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::FaultyFileSystem;
using testing::leave_free;
using testing::on_a_disk_of;
using testing::SampleGradients;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::int64_t kElements = 1 << 20;  // 4 MiB of gradients.

std::size_t files_in(const std::filesystem::path& directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

TEST(FullDiskTest, IsRefusedWithBothFiguresAndTheNextSnapshotWorksWhenThereIsSpaceAgain) {
  on_a_disk_of(96 * kMiB, [](const std::filesystem::path& disk) {
    const SampleGradients sample(1, kElements);
    const auto store = SnapshotStore::open(disk / "store");
    const auto first = store->snapshot(sample.gradients, {.step = 1}, sample.state(1));
    first.wait();

    leave_free(disk, 20 * kMiB);
    const auto take = [&] { store->snapshot(sample.gradients, {.step = 2}, sample.state(1)); };
    EXPECT_THAT(take, fails_with(ErrorCode::io, std::to_string(first.bytes_total()) + " bytes"));
    EXPECT_THAT(take, fails_with(ErrorCode::io, std::to_string(20 * kMiB) + ": free some space"));
    EXPECT_EQ(store->list().size(), 1u);
    EXPECT_EQ(files_in(disk / "store/rank-00000/snapshots"), 1u);
    EXPECT_TRUE(sample.whole(*store, first.id(), 1));

    std::filesystem::remove(disk / "others");
    const auto next = store->snapshot(sample.gradients, {.step = 3}, sample.state(1));
    next.wait();
    EXPECT_TRUE(sample.whole(*store, next.id(), 1));
    EXPECT_EQ(store->latest_good()->id, next.id());
  });
}

// Somebody else takes the space after it was checked, at one moment or another of the write.
class FillingDiskTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FillingDiskTest, FailsThatSnapshotOnlyAndWhole) {
  const std::string operation = GetParam();
  on_a_disk_of(96 * kMiB, [&](const std::filesystem::path& disk) {
    const SampleGradients sample(1, kElements);
    const auto files = std::make_shared<FaultyFileSystem>();
    auto store = SnapshotStore::open(disk / "store", {.file_system = files});
    const auto first = store->snapshot(sample.gradients, {.step = 1});
    first.wait();

    std::once_flag once;
    files->set_hook([&](std::string_view name, const io::Path& path) {
      if (name == operation && path.string().find("/snapshots") != std::string::npos)
        std::call_once(once, [&] { leave_free(disk, 0); });
    });
    const auto second = store->snapshot(sample.gradients, {.step = 2});
    std::string told;
    try {
      second.wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      told = error.what();
      EXPECT_NE(told.find("(step 2, micro-step 0)"), std::string::npos) << told;
      EXPECT_NE(told.find("No space left on device"), std::string::npos) << told;
    }
    EXPECT_TRUE(sample.whole(*store, first.id(), 1));
    EXPECT_TRUE(std::filesystem::remove(disk / "others"));

    const auto third = store->snapshot(sample.gradients, {.step = 3});
    third.wait();
    store->close();
    store = SnapshotStore::open(disk / "store");
    EXPECT_TRUE(sample.whole(*store, first.id(), 1));
    EXPECT_TRUE(sample.whole(*store, third.id(), 1));
    // Whole or absent; absent for sure where it was told so.
    if (store->find(2, 0, Stage::post_reduce)) {
      EXPECT_TRUE(sample.whole(*store, second.id(), 1));
      EXPECT_TRUE(told.empty() || told.find("outcome unknown") != std::string::npos) << told;
    }
    EXPECT_EQ(store->list().size(), files_in(disk / "store/rank-00000/snapshots"));
  });
}

INSTANTIATE_TEST_SUITE_P(Moments, FillingDiskTest,
                         ::testing::Values("open",      // before its space is reserved
                                           "write",     // reserved: nothing happens
                                           "rename"));  // before the index has its row

TEST(ReadOnlyDiskTest, OpenSaysWhatToDoAndAViewWorks) {
  on_a_disk_of(96 * kMiB, [](const std::filesystem::path& disk) {
    const SampleGradients sample(1);
    auto store = SnapshotStore::open(disk / "store");
    store->snapshot(sample.gradients, {.step = 5}, sample.state(1)).wait();
    store->close();
    store = nullptr;
    testing::make_read_only(disk);
    const auto open = [&] { SnapshotStore::open(disk / "store"); };
    EXPECT_THAT(open, fails_with(ErrorCode::io, "Read-only file system"));
    EXPECT_THAT(open, fails_with(ErrorCode::io, (disk / "store").string() + " for writing"));
    EXPECT_THAT(open, fails_with(ErrorCode::io, "without writing, use `grad-inspect`"));
    EXPECT_THAT([&] { SnapshotStore::open(disk / "other"); },
                fails_with(ErrorCode::io, "Read-only file system"));

    const archive::StoreView view(disk / "store");
    auto rank = view.open_rank(0);
    const auto rows = rank.list();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].info.metadata.step, 5u);
    EXPECT_TRUE(rank.verify_gradients(rows[0].info.id).damage.empty());
    EXPECT_TRUE(rank.verify_state(rows[0].info.id).damage.empty());
  });
}

TEST(ReadOnlyDiskTest, AFolderOfSomebodyElseIsRefusedAndAViewOfItWorks) {
  if (testing::role() == "nobody") {
    const auto directory = testing::given_directory();
    if (::geteuid() == 0) {
      ASSERT_EQ(::setuid(65534), 0);
    }
    EXPECT_THAT([&] { SnapshotStore::open(directory / "store"); },
                fails_with(ErrorCode::io, "Permission denied"));
    EXPECT_THAT([&] { SnapshotStore::open(directory / "store"); },
                fails_with(ErrorCode::io, "use `grad-inspect`"));
    EXPECT_EQ(archive::StoreView(directory / "store").open_rank(0).list().size(), 1u);
    return;
  }
  const testing::TempDir dir;
  const SampleGradients sample(1);
  SnapshotStore::open(dir / "store")->snapshot(sample.gradients, {}).wait();
  // As another user sees it; our own process is perhaps root, which nothing stops.
  using std::filesystem::perms;
  const auto readable = perms::owner_read | perms::group_read | perms::others_read;
  const auto enterable = readable | perms::owner_exec | perms::group_exec | perms::others_exec;
  const auto store = dir / "store";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store))
    std::filesystem::permissions(entry, entry.is_directory() ? enterable : readable);
  std::filesystem::permissions(dir.path(), enterable);
  testing::SecondProcess nobody("nobody", dir.path());
  EXPECT_EQ(nobody.finish(), 0);
  // So that the folder can be removed.
  std::filesystem::permissions(dir.path(), perms::owner_all);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store))
    if (entry.is_directory()) std::filesystem::permissions(entry, perms::owner_all);
}

}  // namespace
}  // namespace gradstore
