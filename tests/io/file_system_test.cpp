#include "io/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::io {
namespace {

using gradstore::testing::fails_with;
using gradstore::testing::FaultyFileSystem;
using gradstore::testing::TempDir;
using ::testing::AnyOf;
using ::testing::ElementsAre;

class FileSystemTest : public ::testing::Test {
 protected:
  void replace(std::string_view contents) {
    replace_durably(files_, path_, std::as_bytes(std::span(contents)));
  }
  std::string contents() { return read_whole(files_, path_, 1000); }

  // Replaces "the old" by "the new" with failures from each operation on.
  void expect_old_or_new_whatever_fails(FaultyFileSystem::Mode mode, bool torn) {
    replace("the old");
    files_.set_torn_writes(torn);
    std::size_t nth = 1;
    for (;; ++nth) {
      SCOPED_TRACE(nth);
      files_.arm(nth, mode);
      if (nth < 10) {
        try {
          replace("the new");
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::io);
        }
      }
      files_.disarm();
      if (!files_.fired()) break;
      EXPECT_THAT(contents(), AnyOf("the old", "the new"));
      replace("the old");
    }
    EXPECT_EQ(nth, 6u) << "open, write, sync, rename and sync_directory can fail";
    EXPECT_EQ(contents(), "the new");
  }

  TempDir dir_;
  Path path_ = dir_ / "store.json";
  FaultyFileSystem files_;
};

TEST_F(FileSystemTest, ReplaceWritesSyncsRenamesAndSyncsTheFolderInThisOrder) {
  replace("contents");
  const auto path = path_.string();
  EXPECT_THAT(
      files_.log(),
      ElementsAre("open " + path + ".tmp", "write " + path + ".tmp", "sync " + path + ".tmp",
                  "rename " + path + ".tmp -> " + path, "sync_directory " + dir_.path().string()));
}

TEST_F(FileSystemTest, ReplaceLeavesOldOrNewContentsWhereverOneOperationFails) {
  expect_old_or_new_whatever_fails(FaultyFileSystem::Mode::once, false);
}

TEST_F(FileSystemTest, ReplaceLeavesOldOrNewContentsWhenTheDiskIsGoneFromThereOn) {
  expect_old_or_new_whatever_fails(FaultyFileSystem::Mode::sticky, false);
}

TEST_F(FileSystemTest, ReplaceLeavesOldOrNewContentsWhenTheWriteIsTorn) {
  expect_old_or_new_whatever_fails(FaultyFileSystem::Mode::sticky, true);
}

TEST_F(FileSystemTest, FailedReplaceLeavesNoTemporaryFile) {
  for (const std::size_t nth : {2, 3, 4}) {
    SCOPED_TRACE(nth);
    files_.arm(nth);
    EXPECT_THAT([&] { replace("contents"); }, fails_with(ErrorCode::io, "injected failure"));
    EXPECT_THAT(files_.list(dir_.path()), ElementsAre());
  }
}

TEST_F(FileSystemTest, ReplaceOverwritesWhatACrashLeft) {
  Path leftover = path_;
  leftover += ".tmp";
  files_.open(leftover, OpenMode::create)->write_at(0, std::as_bytes(std::span("much too long")));
  replace("short");
  EXPECT_EQ(contents(), "short");
}

TEST_F(FileSystemTest, ReplaceOfANameWithoutFolderSyncsTheWorkingDirectory) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  replace_durably(files_, "plain", std::as_bytes(std::span("x", 1)));
  std::filesystem::current_path(before);
  EXPECT_EQ(files_.log().back(), "sync_directory .");
}

TEST_F(FileSystemTest, ReadWholeTakesFilesUpToTheLimitAndRefusesLongerOnes) {
  replace("12345");
  EXPECT_EQ(read_whole(files_, path_, 5), "12345");
  EXPECT_THAT([&] { read_whole(files_, path_, 4); }, fails_with(ErrorCode::io, path_.string()));
  replace("");
  EXPECT_EQ(read_whole(files_, path_, 0), "");
}

}  // namespace
}  // namespace gradstore::io
