// What is in the index after a disk failed or a process died.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradstore/error.h"
#include "index/child_process.h"
#include "index/index.h"
#include "index/index_samples.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;
using gradstore::testing::FaultyFileSystem;
using ::testing::HasSubstr;

class IndexCrashTest : public ::testing::Test {
 protected:
  void put(std::uint64_t sequence) { put_sample(*index_, {1, sequence}, layout_); }
  bool is_whole(std::uint64_t sequence) { return whole(*index_, {1, sequence}, layout_); }
  bool is_absent(std::uint64_t sequence) { return absent(*index_, {1, sequence}, layout_); }

  // The number of synced logs among the operations after the first `from`.
  std::size_t synced_logs(std::size_t from) const {
    std::size_t count = 0;
    const auto log = files_->log();
    for (std::size_t i = from; i < log.size(); ++i) {
      count += log[i].starts_with("sync ") && log[i].ends_with(".log");
    }
    return count;
  }

  testing::TempDir temporary_;
  io::Path directory_ = temporary_ / "index";
  Layout layout_ = sample_layout(20);
  std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  std::unique_ptr<Index> index_ = Index::open(files_, directory_);
};

TEST_F(IndexCrashTest, EveryChangeSyncsTheLogOnce) {
  const auto expect_one_sync = [&](const char* what, auto change) {
    const auto before = files_->operations();
    change();
    EXPECT_EQ(synced_logs(before), 1u) << what;
    EXPECT_THAT(files_->log().back(), HasSubstr("sync")) << what;
  };
  expect_one_sync("put", [&] { put(1); });
  expect_one_sync("put", [&] { put(2); });
  expect_one_sync("pin", [&] { index_->set_pinned_durable({1, 1}, true); });
  expect_one_sync("mark", [&] { index_->set_state_durable({1, 1}, SnapshotState::deleting); });
  expect_one_sync("remove", [&] { index_->remove_durable({1, 1}); });
  expect_one_sync("raise", [&] { index_->raise_high_water_durable({1, 9}); });
}

TEST_F(IndexCrashTest, NewIndexIsMadeDurableInItsFolder) {
  EXPECT_THAT(files_->log(), ::testing::Contains("sync_directory " + temporary_.path().string()));
}

TEST_F(IndexCrashTest, FailureAtAnyOperationOfAPutLeavesTheRowWholeOrAbsent) {
  put(1);
  std::uint64_t sequence = 2;
  for (const bool torn : {false, true}) {
    files_->set_torn_writes(torn);
    for (std::size_t nth = 1;; ++nth, ++sequence) {
      SCOPED_TRACE(nth);
      files_->arm(nth);
      try {
        put(sequence);
        EXPECT_TRUE(is_whole(sequence));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_THAT(error.what(),
                    HasSubstr("Putting snapshot " + to_string(SnapshotId{1, sequence})));
        EXPECT_THAT(error.what(), HasSubstr("injected failure at operation"));
      }
      if (!files_->fired()) break;  // Every operation has failed once.
      files_->disarm();
      index_->reopen();
      EXPECT_TRUE(is_whole(1));
      EXPECT_TRUE(is_absent(sequence) || is_whole(sequence));
      put(sequence);
      EXPECT_TRUE(is_whole(sequence));
    }
    EXPECT_TRUE(is_whole(sequence++));
  }
}

TEST_F(IndexCrashTest, FailureAtAnyOperationOfAReopeningLosesNothing) {
  std::size_t nth = 1;
  for (;; ++nth) {
    SCOPED_TRACE(nth);
    put(nth);
    files_->arm(nth);
    try {
      index_->reopen();
      if (!files_->fired()) break;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
    files_->disarm();
    index_
        ->reopen();  // Even if it opened: a compaction may have failed, which the next put is told.
    ASSERT_EQ(index_->list().size(), nth);
    ASSERT_TRUE(is_whole(nth));
  }
  EXPECT_GT(nth, 10u);
}

TEST_F(IndexCrashTest, FailureAtAnyOperationOfTheFirstOpeningCanBeRepeated) {
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    index_.reset();
    std::filesystem::remove_all(directory_);
    files_->arm(nth);
    try {
      index_ = Index::open(files_, directory_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
    if (!files_->fired()) break;
    files_->disarm();
    index_.reset();
    ASSERT_NO_THROW(index_ = Index::open(files_, directory_));
    put(1);
    ASSERT_TRUE(is_whole(1));
  }
}

TEST_F(IndexCrashTest, LastingFailureIsToldByEveryPutAndEndsWithReopening) {
  put(1);
  files_->arm(2, FaultyFileSystem::Mode::sticky);  // 1: the write, 2: its sync.
  EXPECT_THAT([&] { put(2); }, fails_with(ErrorCode::io, "sync"));
  EXPECT_THAT([&] { put(3); }, fails_with(ErrorCode::io, "snapshot 0001-00000003"));
  EXPECT_THAT([&] { index_->reopen(); }, fails_with(ErrorCode::io, "injected failure"));
  EXPECT_THAT([&] { put(4); }, fails_with(ErrorCode::io, "injected failure"));
  EXPECT_THAT([&] { index_->list(); }, fails_with(ErrorCode::io, "injected failure"));
  files_->disarm();
  put(5);  // Opens again by itself.
  EXPECT_TRUE(is_whole(1));
  EXPECT_TRUE(is_absent(2) || is_whole(2));
  EXPECT_TRUE(is_whole(5));
}

TEST_F(IndexCrashTest, FailedRowIsNotTakenForPresentLayout) {
  files_->arm(1);
  EXPECT_THROW(put(1), Error);
  files_->disarm();
  index_->reopen();
  put(1);
  EXPECT_TRUE(is_whole(1));
}

TEST_F(IndexCrashTest, FailedFlushIsToldByCloseAndLosesNothing) {
  put(1);
  files_->arm(1, FaultyFileSystem::Mode::sticky);
  EXPECT_THAT([&] { index_->close(); }, fails_with(ErrorCode::io, "injected failure"));
  files_->disarm();
  index_->close();
  index_->reopen();
  EXPECT_TRUE(is_whole(1));
}

TEST_F(IndexCrashTest, AcknowledgedRowsSurviveKilledWriters) {
  for (const int acknowledged_before_kill : {1, 2, 7, 40}) {
    SCOPED_TRACE(acknowledged_before_kill);
    testing::TempDir temporary;
    const auto directory = temporary / "index";
    std::uint64_t acknowledged = 0;
    {
      ChildProcess child({"put", directory.string(), "1000000", "700"});  // Flushes every ~60 puts.
      for (int i = 0; i < acknowledged_before_kill; ++i)
        acknowledged = std::stoull(child.read_line());
      child.kill();
      for (auto line = child.read_line(); !line.empty(); line = child.read_line()) {
        acknowledged = std::stoull(line);  // Said before it died.
      }
    }
    const auto layout = sample_layout(700);
    const auto index = Index::open(io::posix_file_system(), directory);
    for (std::uint64_t sequence = 1; sequence <= acknowledged; ++sequence) {
      ASSERT_TRUE(whole(*index, {1, sequence}, layout)) << sequence;
    }
    const SnapshotId next{1, acknowledged + 1};
    EXPECT_TRUE(absent(*index, next, layout) || whole(*index, next, layout));
    EXPECT_LE(index->list().size(), acknowledged + 1);
  }
}

}  // namespace
}  // namespace gradstore::index
