// SIGTERM in the middle of training: one more snapshot, within the time that is left.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "gradstore/snapshot_store.h"
#include "gradstore/termination_notice.h"
#include "sample_gradients.h"
#include "support/faulty_file_system.h"
#include "support/second_process.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using std::chrono::milliseconds;
using testing::given_directory;
using testing::role;
using testing::SampleGradients;
using testing::SecondProcess;
using testing::tell;

// The loop of termination_notice.h. Returns what the last ticket's wait said.
bool train_until_told(SnapshotStore& store, const TerminationNotice& notice) {
  const SampleGradients sample(1);
  for (std::uint64_t step = 1;; ++step) {
    if (step == 3) tell("training");
    if (notice.requested()) {
      const auto ticket = store.snapshot(sample.gradients, {.step = 1'000'000}, sample.state(1));
      return ticket.wait_for(notice.remaining());
    }
    if (step < 3) store.snapshot(sample.gradients, {.step = step}, sample.state(1)).wait();
    std::this_thread::yield();
  }
}

TEST(TerminationTest, OnSigtermTheLastSnapshotIsCommittedAndTheProcessEndsInPeace) {
  if (role() == "training") {
    const TerminationNotice notice(std::chrono::seconds(30));
    const auto store = SnapshotStore::open(given_directory() / "store");
    std::exit(train_until_told(*store, notice) ? 0 : 1);
  }
  const testing::TempDir dir;
  SecondProcess training("training", dir.path());
  EXPECT_EQ(training.read_line(), "training");
  training.signal(SIGTERM);
  EXPECT_EQ(training.finish(), 0);
  const auto store = SnapshotStore::open(dir / "store");
  ASSERT_EQ(store->list().size(), 3u);
  EXPECT_EQ(store->latest_good()->metadata.step, 1'000'000u);
  EXPECT_TRUE(SampleGradients().whole(*store, store->latest()->id, 1));
}

TEST(TerminationTest, ADiskTooSlowEndsTheWaitInTimeAndTheEarlierSnapshotsAreWhole) {
  constexpr milliseconds kGrace(300);
  if (role() == "training") {
    const TerminationNotice notice(kGrace);
    const auto files = std::make_shared<testing::FaultyFileSystem>();
    files->set_hook([&](std::string_view operation, const io::Path&) {
      // For ever, as far as this process is concerned.
      while (operation == "sync" && notice.requested()) std::this_thread::yield();
    });
    auto* const store =
        SnapshotStore::open(given_directory() / "store", {.file_system = files}).release();
    if (train_until_told(*store, notice)) std::_Exit(1);
    std::_Exit(notice.remaining() == milliseconds(0) ? 0 : 2);
  }
  const testing::TempDir dir;
  SecondProcess training("training", dir.path());
  EXPECT_EQ(training.read_line(), "training");
  const auto begin = std::chrono::steady_clock::now();
  training.signal(SIGTERM);
  EXPECT_EQ(training.finish(), 0);
  // The bound is the grace; the rest is room for a machine that is busy with other things.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kGrace);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kGrace + std::chrono::seconds(10));
  const auto store = SnapshotStore::open(dir / "store");
  ASSERT_EQ(store->list().size(), 2u);
  for (const auto& info : store->list()) EXPECT_TRUE(SampleGradients().whole(*store, info.id, 1));
}

}  // namespace
}  // namespace gradstore
