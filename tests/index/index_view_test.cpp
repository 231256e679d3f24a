#include "index/index_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

#include "index/child_process.h"
#include "index/index_samples.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;
using ::testing::ElementsAre;

// Lets the writer act at a point of a view's opening.
class WatchedFileSystem : public testing::FaultyFileSystem {
 public:
  /// Called before a file is opened to read (its path) and before a folder is listed (its path).
  std::function<void(const io::Path&)> before_reading = [](const io::Path&) {};

  std::unique_ptr<io::File> open(const io::Path& path, io::OpenMode mode,
                                 io::Caching caching) override {
    before_reading(path);
    return FaultyFileSystem::open(path, mode, caching);
  }
  std::vector<std::string> list(const io::Path& directory) override {
    before_reading(directory);
    return FaultyFileSystem::list(directory);
  }
};

class IndexViewTest : public ::testing::Test {
 protected:
  void put(Index& index, std::uint64_t sequence) { put_sample(index, {1, sequence}, layout_); }

  std::unique_ptr<Index> open_writer() { return Index::open(io::posix_file_system(), directory_); }

  // Names, lengths and times of all files.
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>> contents() const {
    std::map<std::string, std::pair<std::uint64_t, std::int64_t>> all;
    auto& files = *io::posix_file_system();
    for (const auto& name : files.list(directory_)) {
      const auto status = files.status(directory_ / name);
      all[name] = {status->length, status->modified_unix_ns};
    }
    return all;
  }

  testing::TempDir temporary_;
  io::Path directory_ = temporary_ / "index";
  Layout layout_ = sample_layout(20);
};

TEST_F(IndexViewTest, NoIndexIsNotFound) {
  EXPECT_THAT([&] { IndexView::open(directory_); },
              fails_with(ErrorCode::not_found, directory_.string()));
}

TEST_F(IndexViewTest, UnfinishedIndexIsNotFound) {
  open_writer();
  std::filesystem::resize_file(directory_ / "CURRENT", 0);
  EXPECT_THROW(IndexView::open(directory_), Error);
  std::filesystem::remove(directory_ / "CURRENT");
  EXPECT_THAT([&] { IndexView::open(directory_); },
              fails_with(ErrorCode::not_found, directory_.string()));
}

TEST_F(IndexViewTest, SeesWhatTheClosedIndexHolds) {
  const auto writer = open_writer();
  put(*writer, 1);
  writer->set_pinned_durable({1, 1}, true);
  writer->close();
  const auto view = IndexView::open(directory_);
  EXPECT_TRUE(whole(*view, {1, 1}, layout_));
  EXPECT_TRUE(view->find({1, 1})->info.pinned);
  EXPECT_EQ(view->latest()->info.id, (SnapshotId{1, 1}));
}

TEST_F(IndexViewTest, SeesWhatALiveWriterCommitsOnceItCatchesUp) {
  const auto writer = open_writer();
  put(*writer, 1);
  const auto view = IndexView::open(directory_);
  EXPECT_TRUE(whole(*view, {1, 1}, layout_));
  put(*writer, 2);
  writer->remove_durable({1, 1});
  view->catch_up();
  EXPECT_TRUE(whole(*view, {1, 2}, layout_));
  EXPECT_THAT(ids_of(view->list()), ElementsAre(SnapshotId{1, 2}));
}

TEST_F(IndexViewTest, CatchesUpAcrossFlushAndReopeningOfTheWriter) {
  const auto writer = open_writer();
  const auto view = IndexView::open(directory_);
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence) {
    SCOPED_TRACE(sequence);
    put(*writer, sequence);
    if (sequence % 3 == 0) writer->close();
    if (sequence % 2 == 0) writer->reopen();
    view->catch_up();
    EXPECT_EQ(view->list().size(), sequence);
    EXPECT_TRUE(whole(*view, {1, sequence}, layout_));
    if (sequence % 3 == 0) writer->reopen();
  }
}

// ~50 MB through a 4 MB log: the writer flushes and compacts all the time.
TEST_F(IndexViewTest, NeverMissesACommittedRowWhileTheWriterFlushesAndCompacts) {
  const auto layout = sample_layout(4000);
  ChildProcess child({"put", directory_.string(), "150", "4000"});
  std::unique_ptr<IndexView> kept;
  for (std::uint64_t acknowledged = 1; acknowledged <= 150; ++acknowledged) {
    ASSERT_EQ(child.read_line(), std::to_string(acknowledged));
    if (acknowledged % 3 != 0) continue;
    const auto fresh = IndexView::open(directory_);
    ASSERT_TRUE(whole(*fresh, {1, acknowledged}, layout));
    ASSERT_GE(fresh->list().size(), acknowledged);
    if (!kept) kept = IndexView::open(directory_);
    kept->catch_up();
    ASSERT_TRUE(whole(*kept, {1, acknowledged}, layout));
    ASSERT_GE(kept->list().size(), acknowledged);
  }
}

// The writer moves rows from the log to a table file after the view has read the manifest, before
// it looks for logs.
TEST_F(IndexViewTest, FlushBetweenManifestAndLogsIsNotOverlooked) {
  const auto writer = open_writer();
  put(*writer, 1);
  writer->reopen();  // To a table file.
  put(*writer, 2);
  const auto files = std::make_shared<WatchedFileSystem>();
  bool manifest_was_read = false;
  bool flushed = false;
  files->before_reading = [&](const io::Path& path) {
    if (path.filename().string().starts_with("MANIFEST")) manifest_was_read = true;
    if (path != directory_ || !manifest_was_read || std::exchange(flushed, true)) return;
    writer->close();
  };
  EXPECT_TRUE(whole(*IndexView::open(directory_, files), {1, 2}, layout_));
  EXPECT_TRUE(flushed);
}

TEST_F(IndexViewTest, FileThatVanishesUnderTheViewIsARaceNotDamage) {
  const auto writer = open_writer();
  put(*writer, 1);
  const auto files = std::make_shared<WatchedFileSystem>();
  bool vanished = false;
  files->before_reading = [&](const io::Path& path) {
    if (path.extension() != ".log" || std::exchange(vanished, true)) return;
    writer->close();
    writer->reopen();
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  EXPECT_TRUE(whole(*IndexView::open(directory_, files), {1, 1}, layout_));
  EXPECT_TRUE(vanished);
}

TEST_F(IndexViewTest, OpensAfterTheWriterWasKilled) {
  {
    ChildProcess child({"put", directory_.string(), "5", "20"});
    for (int i = 1; i <= 5; ++i) ASSERT_EQ(child.read_line(), std::to_string(i));
    child.kill();
  }
  const auto view = IndexView::open(directory_);
  EXPECT_EQ(view->list().size(), 5u);
  EXPECT_TRUE(whole(*view, {1, 5}, layout_));
}

TEST_F(IndexViewTest, SeesOverwritingAndRemovalAfterTheWriterFlushed) {
  const auto writer = open_writer();
  put(*writer, 1);
  put(*writer, 2);
  const auto view = IndexView::open(directory_);
  writer->set_state_durable({1, 1}, SnapshotState::data_gone);
  writer->remove_durable({1, 2});
  writer->close();
  view->catch_up();
  EXPECT_EQ(view->find({1, 1})->info.state, SnapshotState::data_gone);
  EXPECT_FALSE(view->find({1, 2}));
}

TEST_F(IndexViewTest, WritesNothing) {
  {
    const auto writer = open_writer();
    put(*writer, 1);
  }
  const auto before = contents();
  IndexView::open(directory_)->catch_up();
  EXPECT_EQ(contents(), before);
}

TEST_F(IndexViewTest, OpensWithoutPermissionToWrite) {
  {
    const auto writer = open_writer();
    put(*writer, 1);
  }
  using std::filesystem::perms;
  const auto readable = perms::owner_read | perms::group_read | perms::others_read;
  const auto enterable = readable | perms::owner_exec | perms::group_exec | perms::others_exec;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    std::filesystem::permissions(entry.path(), readable);
  }
  std::filesystem::permissions(directory_, enterable);
  std::filesystem::permissions(temporary_.path(), enterable);
  const auto before = contents();
  ChildProcess child({"view", directory_.string()});
  EXPECT_EQ(child.read_line(), "1");
  EXPECT_EQ(child.finish(), 0);
  EXPECT_EQ(contents(), before);
  std::filesystem::permissions(temporary_.path(), perms::owner_all);
  std::filesystem::permissions(directory_, perms::owner_all);
}

TEST_F(IndexViewTest, MissingTableFileIsCorrupt) {
  {
    const auto writer = open_writer();
    put(*writer, 1);
    writer->close();
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().extension() == ".sst") std::filesystem::remove(entry.path());
  }
  EXPECT_THAT([&] { IndexView::open(directory_); },
              fails_with(ErrorCode::corrupt, directory_.string()));
}

TEST_F(IndexViewTest, FailedCatchUpKeepsTheView) {
  const auto writer = open_writer();
  put(*writer, 1);
  const auto view = IndexView::open(directory_);
  writer->close();
  std::filesystem::rename(directory_, temporary_ / "elsewhere");
  EXPECT_THAT([&] { view->catch_up(); }, fails_with(ErrorCode::not_found, directory_.string()));
  EXPECT_TRUE(whole(*view, {1, 1}, layout_));
}

}  // namespace
}  // namespace gradstore::index
