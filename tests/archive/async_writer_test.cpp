#include "archive/async_writer.h"

#include <gtest/gtest.h>

#include "archive/file_writer.h"
#include "sample_store.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

using testing::FaultyFileSystem;

class AsyncWriterTest : public ::testing::Test {
 protected:
  std::shared_ptr<SnapshotJob> submit(AsyncWriter& writer, const testing::SampleJob& sample) {
    auto job = testing::make_job(archive_, sample);
    archive_.promise_space(job->bytes_total());
    writer.submit(job);
    return job;
  }

  testing::TempDir dir_;
  std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  RankArchive archive_{testing::sample_options(dir_ / "store", files_)};
};

TEST_F(AsyncWriterTest, WaitReturnsWhenTheSnapshotIsCommitted) {
  AsyncWriter writer(archive_, {});
  const auto job = submit(writer, {.seed = 4, .with_state = true});
  job->wait_until(std::nullopt);
  EXPECT_TRUE(job->done());
  EXPECT_EQ(job->bytes_written, job->bytes_total());
  EXPECT_TRUE(testing::holds(archive_, job->manifest.id, 4));
}

TEST_F(AsyncWriterTest, CloseFinishesWhatWasSubmittedEvenWithoutAnyWait) {
  {
    AsyncWriter writer(archive_, {});
    for (std::uint64_t i = 1; i <= 5; ++i) submit(writer, {.step = i, .seed = i});
  }
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_TRUE(testing::holds(archive_, {1, i}, i));
}

TEST_F(AsyncWriterTest, AWaitWithALimitSaysNoWhileTheCaptureIsGoingOn) {
  AsyncWriter writer(archive_, {});
  Manifest manifest;
  manifest.id = archive_.take_id();
  auto job = std::make_shared<SnapshotJob>(manifest);
  job->gradients.manifest = encode(manifest);
  job->gradients.plan =
      archive_.planner().plan(testing::sample_layout(), job->gradients.manifest.size());
  archive_.promise_space(job->bytes_total());
  writer.submit(job);
  EXPECT_FALSE(job->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(1)));
  io::BlockPool pool(kBlockBytes, kBlockBytes);
  testing::push_blocks(job->gradients, 8, pool);
  EXPECT_TRUE(job->wait_until(std::nullopt));
  EXPECT_TRUE(testing::holds(archive_, manifest.id, 8));
}

TEST_F(AsyncWriterTest, ASnapshotLargerThanTheStagingMemoryGoesInWaves) {
  AsyncWriter writer(archive_, {});
  Layout layout;
  layout.groups = {{}};
  const std::uint64_t elements = 5 * kBlockBytes / 4 + 17;
  layout.params = {{"huge", 0, DType::float32, Presence::captured, {elements}}};
  layout.slices = {{0, 0, DType::float32, {elements}, 0, elements, 0}};
  Manifest manifest;
  manifest.id = archive_.take_id();
  auto job = std::make_shared<SnapshotJob>(manifest);
  job->gradients.manifest = encode(manifest);
  job->gradients.plan = archive_.planner().plan(layout, job->gradients.manifest.size());
  archive_.promise_space(job->bytes_total());
  writer.submit(job);
  io::BlockPool pool(kBlockBytes, 2 * kBlockBytes);
  testing::push_blocks(job->gradients, 3, pool);  // would wait for ever if nobody took the blocks
  job->wait_until(std::nullopt);
  EXPECT_TRUE(testing::holds(archive_, manifest.id, 3));
}

TEST_F(AsyncWriterTest, AFailureIsToldByTheTicketAndThenNotAgain) {
  std::vector<std::string> heard;
  AsyncWriter writer(archive_, [&](const SnapshotId& id, const Error& error) {
    heard.push_back(to_string(id) + " " + error.what());
  });
  files_->arm(1);
  const auto job = submit(writer, {.step = 12});
  EXPECT_THAT([&] { job->wait_until(std::nullopt); },
              testing::fails_with(ErrorCode::io, "step 12"));
  EXPECT_NO_THROW(writer.tell_failure());
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_TRUE(heard[0].starts_with("0001-00000001 "));
  const auto next = submit(writer, {.seed = 2});
  EXPECT_NO_THROW(next->wait_until(std::nullopt));
}

TEST_F(AsyncWriterTest, AFailureNobodyWaitedForIsToldByTheNextCallOnce) {
  AsyncWriter writer(archive_, {});
  files_->arm(1);
  submit(writer, {});
  writer.close();
  EXPECT_THAT([&] { writer.tell_failure(); },
              testing::fails_with(ErrorCode::io, "injected failure"));
  EXPECT_NO_THROW(writer.tell_failure());
}

TEST_F(AsyncWriterTest, AnAbandonedCaptureLeavesNothingAndIsNotToldTwice) {
  AsyncWriter writer(archive_, {});
  Manifest manifest;
  manifest.id = archive_.take_id();
  auto job = std::make_shared<SnapshotJob>(manifest);
  job->gradients.manifest = encode(manifest);
  job->gradients.plan =
      archive_.planner().plan(testing::sample_layout(), job->gradients.manifest.size());
  archive_.promise_space(job->bytes_total());
  writer.submit(job);
  job->gradients.blocks.abandon();
  writer.close();
  EXPECT_TRUE(job->done());
  EXPECT_NO_THROW(writer.tell_failure());
  EXPECT_FALSE(archive_.info(manifest.id));
  EXPECT_TRUE(files_->list(archive_.paths().snapshots()).empty());
}

// A disk that fails for hours: each is reported, memory of failed jobs is not kept, and the first
// save after it is well again works.
TEST_F(AsyncWriterTest, ManyFailuresKeepOneJobAndTheNextSaveWorks) {
  int heard = 0;
  AsyncWriter writer(archive_, [&](const SnapshotId&, const Error&) { ++heard; });
  files_->arm(1, FaultyFileSystem::Mode::sticky);
  std::vector<std::weak_ptr<SnapshotJob>> jobs;
  for (int i = 0; i < 20; ++i) {
    auto job = submit(writer, {});
    EXPECT_THROW(job->wait_until(std::nullopt), Error);
    jobs.push_back(job);
  }
  files_->disarm();
  const auto good = submit(writer, {.seed = 5});
  EXPECT_NO_THROW(good->wait_until(std::nullopt));
  EXPECT_TRUE(testing::holds(archive_, good->manifest.id, 5));
  EXPECT_EQ(heard, 20);
  int kept = 0;
  for (const auto& job : jobs) kept += job.expired() ? 0 : 1;
  EXPECT_LE(kept, 1);
}

}  // namespace
}  // namespace gradstore::archive
