#include "io/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fails_with.h"

namespace gradstore::io {
namespace {

using gradstore::testing::fails_with;
using ::testing::ElementsAre;

constexpr std::size_t kBlock = 8192;

TEST(BlockPoolTest, BudgetIsRoundedDownToWholeBlocksButNeverToNone) {
  EXPECT_EQ(BlockPool(kBlock, 3 * kBlock).blocks_total(), 3u);
  EXPECT_EQ(BlockPool(kBlock, 3 * kBlock - 1).blocks_total(), 2u);
  EXPECT_EQ(BlockPool(kBlock, 0).blocks_total(), 1u);
  EXPECT_EQ(BlockPool(kBlock, 0).block_bytes(), kBlock);
}

TEST(BlockPoolTest, BlocksOfNoBytesAreRefused) {
  EXPECT_THAT([] { BlockPool(0, 1000); }, fails_with(ErrorCode::invalid_argument, "0 bytes"));
}

TEST(BlockPoolTest, BlocksAreAlignedAndOfTheSizeAskedFor) {
  BlockPool pool(kBlock, 2 * kBlock);
  const Block block = pool.acquire();
  EXPECT_EQ(block.bytes().size(), kBlock);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.bytes().data()) % AlignedBuffer::kAlignment, 0u);
}

TEST(BlockPoolTest, NoMoreThanTheBudgetIsLent) {
  BlockPool pool(kBlock, 2 * kBlock);
  EXPECT_EQ(pool.free_blocks(), 2u);
  const Block first = pool.acquire();
  EXPECT_EQ(pool.free_blocks(), 1u);
  auto second = pool.try_acquire();
  ASSERT_TRUE(second);
  EXPECT_NE(first.bytes().data(), second->bytes().data());
  EXPECT_EQ(pool.free_blocks(), 0u);
  EXPECT_FALSE(pool.try_acquire());

  second.reset();
  EXPECT_EQ(pool.free_blocks(), 1u);
  EXPECT_TRUE(pool.try_acquire());
}

TEST(BlockPoolTest, ReturnedBlockIsTheNextOneLent) {
  BlockPool pool(kBlock, 4 * kBlock);
  const Block other = pool.acquire();
  const std::byte* data = nullptr;
  {
    const Block block = pool.acquire();
    block.bytes()[0] = std::byte{42};
    data = block.bytes().data();
  }
  const Block again = pool.acquire();
  EXPECT_EQ(again.bytes().data(), data);
  EXPECT_EQ(again.bytes()[0], std::byte{42});
}

TEST(BlockPoolTest, ReleasedMemoryIsTakenAnewWhenNeeded) {
  BlockPool pool(kBlock, 2 * kBlock);
  const Block kept = pool.acquire();
  kept.bytes()[0] = std::byte{1};
  pool.acquire().bytes()[0] = std::byte{42};
  pool.release_memory();
  EXPECT_EQ(kept.bytes()[0], std::byte{1});
  EXPECT_EQ(pool.free_blocks(), 1u);
  EXPECT_EQ(pool.acquire().bytes()[0], std::byte{0}) << "the pages are the old ones";
}

TEST(BlockPoolTest, MovingABlockReturnsWhatItHeldAndNothingTwice) {
  BlockPool pool(kBlock, 3 * kBlock);
  Block first = pool.acquire();
  Block second = pool.acquire();
  const std::byte* const data = second.bytes().data();
  first = std::move(second);
  EXPECT_EQ(pool.free_blocks(), 2u);
  EXPECT_EQ(first.bytes().data(), data);
  EXPECT_TRUE(second.bytes().empty());  // NOLINT(bugprone-use-after-move)
  { const Block third(std::move(first)); }
  EXPECT_EQ(pool.free_blocks(), 3u);
}

TEST(BlockPoolTest, BlockOutlivesItsPool) {
  auto pool = std::make_unique<BlockPool>(kBlock, kBlock);
  const Block block = pool->acquire();
  pool.reset();
  EXPECT_NO_THROW(block.bytes()[0] = std::byte{1});
}

TEST(BlockPoolTest, FailedAllocationLeavesTheBlockFree) {
  BlockPool pool(std::numeric_limits<std::size_t>::max() / 2, 0);
  EXPECT_THROW(pool.acquire(), std::bad_alloc);
  EXPECT_EQ(pool.free_blocks(), 1u);
}

TEST(BlockPoolTest, AcquireWaitsUntilABlockComesBack) {
  BlockPool pool(kBlock, kBlock);
  std::mutex mutex;
  std::vector<std::string> events;
  const auto note = [&](const char* event) {
    const std::lock_guard guard(mutex);
    events.emplace_back(event);
  };
  std::optional<Block> only = pool.acquire();
  std::latch about_to_wait(1);
  std::jthread waiter([&] {
    about_to_wait.count_down();
    const Block block = pool.acquire();
    note("acquired");
  });
  about_to_wait.wait();
  note("returned");
  only.reset();
  waiter.join();
  EXPECT_THAT(events, ElementsAre("returned", "acquired"));
}

TEST(BlockPoolTest, ManyThreadsNeverHoldMoreThanTheBudget) {
  constexpr std::size_t kBlocks = 3;
  constexpr int kThreads = 8;
  constexpr int kRounds = 500;
  BlockPool pool(kBlock, kBlocks * kBlock);
  std::mutex mutex;
  std::set<const std::byte*> held;
  std::size_t most_held = 0;
  std::latch start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (int round = 0; round < kRounds; ++round) {
          const Block block = pool.acquire();
          {
            const std::lock_guard guard(mutex);
            EXPECT_TRUE(held.insert(block.bytes().data()).second) << "lent twice";
            most_held = std::max(most_held, held.size());
          }
          std::this_thread::yield();
          if (round % 100 == 0) pool.release_memory();
          const std::lock_guard guard(mutex);
          held.erase(block.bytes().data());
        }
      });
    }
  }
  EXPECT_LE(most_held, kBlocks);
  EXPECT_EQ(pool.free_blocks(), kBlocks);
}

}  // namespace
}  // namespace gradstore::io
