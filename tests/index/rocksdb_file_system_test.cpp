#include "index/rocksdb_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradstore/error.h"
#include "index/index_samples.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::index {
namespace {

using gradstore::testing::FaultyFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RocksDbFileSystemTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (temporary_ / name).string(); }

  std::unique_ptr<rocksdb::FSWritableFile> create(const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(through_->NewWritableFile(path(name), {}, &file, nullptr).ok());
    return file;
  }

  std::string contents(const std::string& name) {
    return io::read_whole(*io::posix_file_system(), path(name), 1000);
  }

  testing::TempDir temporary_;
  std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  std::shared_ptr<rocksdb::FileSystem> through_ = rocksdb_file_system(files_, Access::read_write);
  rocksdb::IOOptions options_;
};

TEST_F(RocksDbFileSystemTest, AppendsFollowEachOtherAndSyncReachesTheFile) {
  const auto file = create("a");
  EXPECT_TRUE(file->Append("one", options_, nullptr).ok());
  EXPECT_TRUE(file->Append("two", options_, nullptr).ok());
  EXPECT_EQ(file->GetFileSize(options_, nullptr), 6u);
  EXPECT_EQ(contents("a"), "onetwo");
  EXPECT_TRUE(file->Sync(options_, nullptr).ok());
  EXPECT_TRUE(file->Fsync(options_, nullptr).ok());
  EXPECT_EQ(files_->operations("sync"), 2u);
  EXPECT_TRUE(file->Truncate(4, options_, nullptr).ok());
  EXPECT_TRUE(file->Append("!", options_, nullptr).ok());
  EXPECT_EQ(contents("a"), "onet!");
}

TEST_F(RocksDbFileSystemTest, NewFileIsEmptiedAndReopenedOneContinues) {
  create("a")->Append("old", options_, nullptr);
  create("a")->Append("new", options_, nullptr);
  EXPECT_EQ(contents("a"), "new");
  std::unique_ptr<rocksdb::FSWritableFile> file;
  EXPECT_TRUE(through_->ReopenWritableFile(path("a"), {}, &file, nullptr).ok());
  EXPECT_TRUE(file->Append("er", options_, nullptr).ok());
  EXPECT_EQ(contents("a"), "newer");
}

TEST_F(RocksDbFileSystemTest, ReadsWhatIsThereAndStopsAtTheEnd) {
  create("a")->Append("0123456789", options_, nullptr);
  char scratch[20];
  rocksdb::Slice result;
  std::unique_ptr<rocksdb::FSSequentialFile> sequential;
  ASSERT_TRUE(through_->NewSequentialFile(path("a"), {}, &sequential, nullptr).ok());
  EXPECT_TRUE(sequential->Read(3, options_, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "012");
  EXPECT_TRUE(sequential->Skip(2).ok());
  EXPECT_TRUE(sequential->Read(20, options_, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "56789");
  EXPECT_TRUE(sequential->Read(20, options_, &result, scratch, nullptr).ok());
  EXPECT_TRUE(result.empty());
  std::unique_ptr<rocksdb::FSRandomAccessFile> random;
  ASSERT_TRUE(through_->NewRandomAccessFile(path("a"), {}, &random, nullptr).ok());
  EXPECT_TRUE(random->Read(8, 20, options_, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "89");
}

TEST_F(RocksDbFileSystemTest, NothingThereIsToldAsRocksDbExpects) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  std::unique_ptr<rocksdb::FSDirectory> directory;
  std::vector<std::string> names;
  uint64_t number = 0;
  EXPECT_TRUE(through_->FileExists(path("a"), options_, nullptr).IsNotFound());
  EXPECT_TRUE(through_->GetChildren(path("a"), options_, &names, nullptr).IsNotFound());
  EXPECT_TRUE(through_->NewSequentialFile(path("a"), {}, &file, nullptr).IsPathNotFound());
  EXPECT_TRUE(through_->NewDirectory(path("a"), options_, &directory, nullptr).IsPathNotFound());
  EXPECT_TRUE(through_->GetFileSize(path("a"), options_, &number, nullptr).IsPathNotFound());
  EXPECT_TRUE(through_->DeleteFile(path("a"), options_, nullptr).IsPathNotFound());
}

TEST_F(RocksDbFileSystemTest, NamesChangeThroughTheSeam) {
  create("a");
  EXPECT_TRUE(through_->RenameFile(path("a"), path("b"), options_, nullptr).ok());
  EXPECT_TRUE(through_->LinkFile(path("b"), path("c"), options_, nullptr).ok());
  EXPECT_TRUE(through_->CreateDir(path("d"), options_, nullptr).ok());
  EXPECT_FALSE(through_->CreateDir(path("d"), options_, nullptr).ok());
  EXPECT_TRUE(through_->CreateDirIfMissing(path("d"), options_, nullptr).ok());
  EXPECT_TRUE(through_->DeleteFile(path("b"), options_, nullptr).ok());
  std::vector<std::string> names;
  EXPECT_TRUE(through_->GetChildren(temporary_.path().string(), options_, &names, nullptr).ok());
  EXPECT_THAT(names, ElementsAre("c", "d"));
  bool is_directory = false;
  EXPECT_TRUE(through_->IsDirectory(path("d"), options_, &is_directory, nullptr).ok());
  EXPECT_TRUE(is_directory);
  EXPECT_TRUE(through_->DeleteDir(path("d"), options_, nullptr).ok());
  EXPECT_TRUE(through_->FileExists(path("d"), options_, nullptr).IsNotFound());
  std::unique_ptr<rocksdb::FSDirectory> directory;
  ASSERT_TRUE(
      through_->NewDirectory(temporary_.path().string(), options_, &directory, nullptr).ok());
  EXPECT_TRUE(directory->Fsync(options_, nullptr).ok());
  EXPECT_EQ(files_->operations("sync_directory"), 1u);
}

TEST_F(RocksDbFileSystemTest, FailureKeepsItsText) {
  const auto file = create("a");
  files_->arm(1, FaultyFileSystem::Mode::sticky);
  for (const auto& status : {file->Append("x", options_, nullptr), file->Sync(options_, nullptr),
                             through_->RenameFile(path("a"), path("b"), options_, nullptr)}) {
    EXPECT_TRUE(status.IsIOError());
    EXPECT_THAT(status.ToString(), HasSubstr("injected failure"));
  }
}

TEST_F(RocksDbFileSystemTest, FailedAppendIsWrittenAgainAtItsPlace) {
  const auto file = create("a");
  files_->set_torn_writes(true);
  files_->arm(1);
  EXPECT_FALSE(file->Append("1234", options_, nullptr).ok());
  EXPECT_TRUE(file->Append("1234", options_, nullptr).ok());
  EXPECT_EQ(contents("a"), "1234");
}

TEST_F(RocksDbFileSystemTest, FullDiskIsNoSpace) {
  const auto file = create("a");
  files_->set_hook(
      [](auto, const auto&) { throw Error(ErrorCode::io, "Writing: No space left on device"); });
  EXPECT_TRUE(file->Append("x", options_, nullptr).IsNoSpace());
}

TEST_F(RocksDbFileSystemTest, NoExceptionPasses) {
  const auto file = create("a");
  files_->set_hook([](auto, const auto&) { throw std::bad_alloc(); });
  EXPECT_TRUE(file->Append("x", options_, nullptr).IsIOError());
}

TEST_F(RocksDbFileSystemTest, LockIsBusyUntilItIsReleased) {
  rocksdb::FileLock* lock = nullptr;
  rocksdb::FileLock* second = nullptr;
  ASSERT_TRUE(through_->LockFile(path("LOCK"), options_, &lock, nullptr).ok());
  EXPECT_TRUE(through_->LockFile(path("LOCK"), options_, &second, nullptr).IsBusy());
  EXPECT_EQ(second, nullptr);
  EXPECT_TRUE(through_->UnlockFile(lock, options_, nullptr).ok());
  ASSERT_TRUE(through_->LockFile(path("LOCK"), options_, &lock, nullptr).ok());
  EXPECT_TRUE(through_->UnlockFile(lock, options_, nullptr).ok());
}

TEST_F(RocksDbFileSystemTest, ReadOnlyAccessChangesNothing) {
  create("a")->Append("kept", options_, nullptr);
  const auto before = files_->operations();
  const auto view = rocksdb_file_system(files_, Access::read_only);
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::FileLock* lock = nullptr;
  EXPECT_TRUE(view->NewWritableFile(path("a"), {}, &file, nullptr).IsNotSupported());
  EXPECT_TRUE(view->ReopenWritableFile(path("a"), {}, &file, nullptr).IsNotSupported());
  EXPECT_TRUE(view->ReuseWritableFile(path("b"), path("a"), {}, &file, nullptr).IsNotSupported());
  EXPECT_TRUE(view->Truncate(path("a"), 0, options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->DeleteFile(path("a"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->RenameFile(path("a"), path("b"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->LinkFile(path("a"), path("b"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->CreateDir(path("d"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->CreateDirIfMissing(path("d"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->DeleteDir(path("d"), options_, nullptr).IsNotSupported());
  EXPECT_TRUE(view->LockFile(path("LOCK"), options_, &lock, nullptr).IsNotSupported());
  EXPECT_EQ(files_->operations(), before);
  EXPECT_EQ(contents("a"), "kept");
}

}  // namespace
}  // namespace gradstore::index
