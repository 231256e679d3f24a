// Trouble, and its absence, for a long time: nothing grows, nothing stops the training.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradstore/snapshot_store.h"
#include "sample_gradients.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::FaultyFileSystem;
using testing::SampleGradients;

// What the operating system counts for this process.
struct Usage {
  std::size_t resident_bytes = 0;
  std::size_t threads = 0;
  std::size_t descriptors = 0;

  static Usage now() {
    const auto entries = [](const char* directory) {
      const std::filesystem::directory_iterator all(directory);
      return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    };
    std::size_t total_pages = 0;
    Usage usage;
    std::ifstream("/proc/self/statm") >> total_pages >> usage.resident_bytes;
    usage.resident_bytes *= 4096;
    usage.threads = entries("/proc/self/task");
    usage.descriptors = entries("/proc/self/fd");
    return usage;
  }
};

// RocksDB keeps up to 16 MiB of rows in memory before it flushes them; that is its steady state.
constexpr std::size_t kNoise = 24u << 20;

void expect_flat(const Usage& before, const Usage& after) {
  EXPECT_LT(after.resident_bytes, before.resident_bytes + kNoise);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LE(after.descriptors, before.descriptors + 4) << "RocksDB opens a few table files";
}

int how_many(int in_ci, int when_long) {
  return std::getenv("GRADSTORE_TEST_LONG") ? when_long : in_ci;
}

class FailingDiskTest : public ::testing::Test {
 protected:
  // Fails everything that changes a file whose path contains `where`, until `broken` is false.
  void break_disk(const std::string& where) {
    broken_ = true;
    files_->set_hook([this, where](std::string_view operation, const io::Path& path) {
      if (broken_ && path.string().find(where) != std::string::npos)
        throw Error(ErrorCode::io, "the disk fails at " + std::string(operation));
    });
  }
  void repair_disk() { broken_ = false; }

  std::unique_ptr<SnapshotStore> open() {
    return SnapshotStore::open(dir_ / "store",
                               {.on_error =
                                    [this](const SnapshotId& id, const Error& error) {
                                      const std::lock_guard lock(mutex_);
                                      last_id_ = id;
                                      last_code_ = error.code();
                                      last_message_ = error.what();
                                      ++heard_;
                                    },
                                .file_system = files_});
  }

  testing::TempDir dir_;
  std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  std::atomic<bool> broken_ = false;
  std::mutex mutex_;
  std::atomic<int> heard_ = 0;
  SnapshotId last_id_;
  ErrorCode last_code_ = ErrorCode::internal;
  std::string last_message_;
};

class FailingForHoursTest : public FailingDiskTest,
                            public ::testing::WithParamInterface<const char*> {};

TEST_P(FailingForHoursTest, TellsEachFailureStopsNobodyAndGrowsNothing) {
  const SampleGradients sample(1);
  auto store = open();
  const auto first = store->snapshot(sample.gradients, {.step = 0}, sample.state(1));
  first.wait();
  break_disk(GetParam());
  Usage before;
  const int warm_up = 50;
  const int rounds = warm_up + how_many(1000, 20'000);
  for (int i = 0; i < rounds; ++i) {
    if (i == warm_up) before = Usage::now();
    const auto ticket = store->snapshot(sample.gradients, {.step = 1}, sample.state(1));
    EXPECT_THROW(ticket.wait(), Error);
    EXPECT_EQ(heard_, i + 1);
  }
  expect_flat(before, Usage::now());
  EXPECT_EQ(last_code_, ErrorCode::io);

  repair_disk();
  const auto good = store->snapshot(sample.gradients, {.step = 2}, sample.state(1));
  good.wait();
  EXPECT_TRUE(sample.whole(*store, good.id(), 1));
  EXPECT_EQ(heard_, rounds);
  EXPECT_NO_THROW(store->close());
  store = open();
  EXPECT_TRUE(sample.whole(*store, first.id(), 1));
  EXPECT_EQ(store->latest_good()->id, good.id());
}

INSTANTIATE_TEST_SUITE_P(Places, FailingForHoursTest,
                         ::testing::Values("", "/snapshots", "/index"));

// The process ends, or dies, while its index still fails: the next open() believes what is there.
TEST_F(FailingDiskTest, AnIndexThatFailedForHoursDoesNotKeepTheStoreFromOpening) {
  const SampleGradients sample(1);
  auto store = open();
  const auto first = store->snapshot(sample.gradients, {.step = 0});
  first.wait();
  break_disk("/index");
  for (int i = 0; i < 20; ++i)
    EXPECT_THROW(store->snapshot(sample.gradients, {.step = 1}).wait(), Error);
  EXPECT_NO_THROW(store->close());
  store = nullptr;
  repair_disk();
  store = open();
  EXPECT_TRUE(sample.whole(*store, first.id(), 1));
  EXPECT_LE(store->list().size(), 2u) << "at most the one whose outcome was left open";
}

TEST_F(FailingDiskTest, WhatIsToldToOnErrorIsNotThrownBySnapshotNorByClose) {
  const SampleGradients sample(1);
  const auto store = open();
  break_disk("");
  const auto lost = store->snapshot(sample.gradients, {.step = 12});
  while (!lost.done()) std::this_thread::yield();
  std::optional<Ticket> next;
  EXPECT_NO_THROW(next = store->snapshot(sample.gradients, {.step = 13}));
  EXPECT_THAT([&] { lost.wait(); }, fails_with(ErrorCode::io, "step 12"));
  EXPECT_THROW(next->wait(), Error);
  EXPECT_EQ(last_id_, next->id());
  EXPECT_EQ(heard_, 2);
  // The index cannot be flushed either: no snapshot is concerned.
  EXPECT_NO_THROW(store->close());
  EXPECT_EQ(heard_, 3);
  EXPECT_EQ(last_id_, SnapshotId{});
  EXPECT_NE(last_message_.find("Every snapshot that was committed stays so"), std::string::npos);
  EXPECT_THAT([&] { store->snapshot(sample.gradients, {}); },
              fails_with(ErrorCode::invalid_argument, "closed"));
}

TEST_F(FailingDiskTest, WithoutOnErrorCloseTellsThatTheIndexFailedAndLetsGoOfTheLock) {
  const SampleGradients sample(1);
  const auto store = SnapshotStore::open(dir_ / "store", {.file_system = files_});
  const auto ticket = store->snapshot(sample.gradients, {});
  ticket.wait();
  break_disk("/index");
  EXPECT_THAT([&] { store->close(); }, fails_with(ErrorCode::io, (dir_ / "store").string()));
  EXPECT_NO_THROW(store->close());
  repair_disk();
  EXPECT_TRUE(sample.whole(*open(), ticket.id(), 1));
}

// It cannot even start: the disk says that it has no space.
class NoSpace : public FaultyFileSystem {
 public:
  std::uint64_t free_bytes(const io::Path& path) override {
    return full ? 1000 : FaultyFileSystem::free_bytes(path);
  }
  std::atomic<bool> full = false;
};

TEST_F(FailingDiskTest, ASnapshotThatCannotStartIsATicketThatHasFailed) {
  const auto disk = std::make_shared<NoSpace>();
  files_ = disk;
  const SampleGradients sample(1);
  auto store = open();
  disk->full = true;
  const auto ticket = store->snapshot(sample.gradients, {.step = 3, .micro_step = 2});
  EXPECT_EQ(heard_, 1);
  EXPECT_EQ(last_id_, ticket.id());
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.bytes_total(), 0u);
  EXPECT_EQ(ticket.bytes_written(), 0u);
  EXPECT_THAT([&] { ticket.wait(); }, fails_with(ErrorCode::io, "(step 3, micro-step 2)"));
  EXPECT_THAT([&] { ticket.wait_for(std::chrono::hours(1)); },
              fails_with(ErrorCode::io, "1000: free some space"));
  // A wrong call is wrong on any disk.
  EXPECT_THAT([&] { store->snapshot(sample.gradients, {.user_json = "{"}); },
              fails_with(ErrorCode::invalid_argument, "JSON"));
  EXPECT_EQ(heard_, 1);
  disk->full = false;
  const auto next = store->snapshot(sample.gradients, {});
  next.wait();
  EXPECT_GT(next.id(), ticket.id());
  EXPECT_EQ(store->list().size(), 1u);
}

TEST_F(FailingDiskTest, AFullStagingMemoryIsToldTheSameWay) {
  std::mutex gate;
  files_->set_hook([&](std::string_view operation, const io::Path&) {
    if (operation == "write") const std::lock_guard wait(gate);
  });
  const SampleGradients sample(1);
  std::vector<std::string> heard;
  const auto store = SnapshotStore::open(
      dir_ / "store",
      {.staging_bytes = 8u << 20,
       .when_full = WhenFull::fail,
       .on_error = [&](const SnapshotId&, const Error& error) { heard.emplace_back(error.what()); },
       .file_system = files_});
  std::optional<Ticket> first;
  {
    const std::lock_guard hold(gate);
    first = store->snapshot(sample.gradients, {.step = 1});
    const auto second = store->snapshot(sample.gradients, {.step = 2});
    EXPECT_THAT([&] { second.wait(); }, fails_with(ErrorCode::busy, "staging memory"));
  }
  first->wait();
  EXPECT_EQ(heard.size(), 1u);
}

TEST_F(FailingDiskTest, AnOnErrorThatThrowsEndsNothing) {
  const auto disk = std::make_shared<NoSpace>();
  const SampleGradients sample(1);
  int heard = 0;
  const auto store =
      SnapshotStore::open(dir_ / "store", {.on_error =
                                               [&](const SnapshotId&, const Error&) {
                                                 if (++heard == 1) throw 42;
                                                 throw std::runtime_error("from the callback");
                                               },
                                           .file_system = disk});
  disk->arm(1);
  EXPECT_THAT([&] { store->snapshot(sample.gradients, {}).wait(); },
              fails_with(ErrorCode::io, "injected failure"));
  disk->full = true;
  EXPECT_THAT([&] { store->snapshot(sample.gradients, {}).wait(); },
              fails_with(ErrorCode::io, "free some space"));
  disk->full = false;
  EXPECT_NO_THROW(store->snapshot(sample.gradients, {}).wait());
  EXPECT_EQ(heard, 2);
}

TEST(ManySnapshotsTest, AThousandOfThemGrowNothing) {
  const testing::TempDir dir;
  const SampleGradients sample(1);
  const auto store = SnapshotStore::open(dir / "store");
  Usage before;
  const int warm_up = 100;
  const int rounds = warm_up + how_many(1000, 10'000);
  for (int i = 0; i < rounds; ++i) {
    if (i == warm_up) before = Usage::now();
    const auto ticket = store->snapshot(sample.gradients, {.step = static_cast<std::uint64_t>(i)});
    if (i % 8 == 0) ticket.wait();
  }
  store->snapshot(sample.gradients, {}).wait();
  expect_flat(before, Usage::now());
  EXPECT_EQ(store->list().size(), static_cast<std::size_t>(rounds) + 1);
}

}  // namespace
}  // namespace gradstore
