#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/aligned_buffer.h"
#include "io/file_system.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::io {
namespace {

using gradstore::testing::fails_with;
using gradstore::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ends files of this process at `bytes` while it lives, by an error instead of a signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void write(const Path& path, std::string_view contents) {
    files_.open(path, OpenMode::create_or_empty)->write_at(0, std::as_bytes(std::span(contents)));
  }
  std::string contents(const Path& path) { return read_whole(files_, path, 1 << 20); }
  static std::string read(const File& file, std::uint64_t offset, std::size_t size) {
    std::string text(size, '?');
    text.resize(file.read_at(offset, std::as_writable_bytes(std::span(text))));
    return text;
  }

  TempDir dir_;
  Path path_ = dir_ / "file";
  FileSystem& files_ = *posix_file_system();
};

TEST_F(PosixFileSystemTest, WhatIsWrittenIsReadBack) {
  write(path_, "gradient");
  EXPECT_EQ(contents(path_), "gradient");
}

TEST_F(PosixFileSystemTest, FileBeingWrittenCanBeRead) {
  const auto file = files_.open(path_, OpenMode::create);
  file->write_at(2, std::as_bytes(std::span(std::string_view("xy"))));
  EXPECT_EQ(read(*file, 0, 4), std::string("\0\0xy", 4));
}

TEST_F(PosixFileSystemTest, ReadStopsAtTheEndOfTheFile) {
  write(path_, "gradient");
  const auto file = files_.open(path_, OpenMode::read);
  EXPECT_EQ(read(*file, 5, 100), "ent");
  EXPECT_EQ(read(*file, 8, 100), "");
  EXPECT_EQ(read(*file, 1000, 100), "");
  EXPECT_EQ(read(*file, 0, 0), "");
}

TEST_F(PosixFileSystemTest, CreateRefusesAnExistingFileAndLeavesIt) {
  write(path_, "old");
  EXPECT_THAT([&] { files_.open(path_, OpenMode::create); },
              fails_with(ErrorCode::already_exists, path_.string()));
  EXPECT_EQ(contents(path_), "old");
}

TEST_F(PosixFileSystemTest, CreateOrEmptyEmptiesAnExistingFile) {
  write(path_, "a long old text");
  write(path_, "new");
  EXPECT_EQ(contents(path_), "new");
}

TEST_F(PosixFileSystemTest, AppendKeepsWhatIsThereAndWritesWhereItIsTold) {
  files_.open(path_, OpenMode::append)->write_at(0, std::as_bytes(std::span("12345", 5)));
  const auto file = files_.open(path_, OpenMode::append);
  file->write_at(file->length(), std::as_bytes(std::span("67", 2)));
  file->write_at(0, std::as_bytes(std::span("x", 1)));
  EXPECT_EQ(contents(path_), "x234567");
}

TEST_F(PosixFileSystemTest, OffsetsBeyondTwoAndFourGibibytesAreKept) {
  const auto file = files_.open(path_, OpenMode::create);
  for (const std::uint64_t boundary : {std::uint64_t{1} << 31, std::uint64_t{1} << 32}) {
    for (const std::uint64_t offset : {boundary - 1, boundary + 1}) {
      SCOPED_TRACE(offset);
      const std::string text = "at " + std::to_string(offset);
      file->write_at(offset, std::as_bytes(std::span(text)));
      EXPECT_EQ(file->length(), offset + text.size());
      EXPECT_EQ(read(*file, offset, text.size()), text);
    }
  }
  EXPECT_EQ(read(*file, 0, 2), std::string(2, '\0'));
  EXPECT_EQ(files_.status(path_)->length, (std::uint64_t{1} << 32) + 1 + 13);
}

TEST_F(PosixFileSystemTest, WriteThatTheKernelCutsShortIsContinued) {
  const auto file = files_.open(path_, OpenMode::create);
  const AlignedBuffer zeros(8192);
  const auto write_beyond_a_limit = [&] {
    const FileSizeLimit limit(6000);  // Takes 6000 bytes, then refuses.
    file->write_at(0, zeros.bytes());
  };
  EXPECT_THAT(write_beyond_a_limit,
              fails_with(ErrorCode::io, "Writing 8192 bytes at offset 0 of " + path_.string() +
                                            ": File too large"));
  EXPECT_EQ(file->length(), 6000u);
}

TEST_F(PosixFileSystemTest, ReadThatTheKernelCutsShortIsContinued) {
  // The kernel hands such files out a page at a time.
  const auto text = read(*files_.open("/proc/self/smaps", OpenMode::read), 0, 1 << 20);
  EXPECT_GT(text.size(), 8192u);
  EXPECT_THAT(text, HasSubstr("[stack]"));
}

TEST_F(PosixFileSystemTest, AllocateExtendsWithZerosAndNeverShortens) {
  const auto file = files_.open(path_, OpenMode::create);
  file->allocate(0);
  EXPECT_EQ(file->length(), 0u);
  file->allocate(5000);
  EXPECT_EQ(read(*file, 0, 6000), std::string(5000, '\0'));
  file->allocate(100);
  EXPECT_EQ(file->length(), 5000u);
}

TEST_F(PosixFileSystemTest, TruncateSetsTheLengthBothWays) {
  write(path_, "gradient");
  const auto file = files_.open(path_, OpenMode::append);
  file->truncate(4);
  file->truncate(6);
  EXPECT_EQ(contents(path_), std::string("grad\0\0", 6));
}

TEST_F(PosixFileSystemTest, FullDiskIsAnIoErrorThatSaysWhatWasWrittenWhere) {
  const auto file = files_.open("/dev/full", OpenMode::append);
  EXPECT_THAT([&] { file->write_at(512, std::as_bytes(std::span("12345", 5))); },
              fails_with(ErrorCode::io,
                         "Writing 5 bytes at offset 512 of /dev/full: No space left on device"));
}

TEST_F(PosixFileSystemTest, ReadFailureSaysWhatWasReadWhere) {
  const auto folder = files_.open(dir_.path(), OpenMode::read);
  EXPECT_THAT([&] { read(*folder, 7, 10); },
              fails_with(ErrorCode::io, "Reading 10 bytes at offset 7 of " + dir_.path().string() +
                                            ": Is a directory"));
}

TEST_F(PosixFileSystemTest, WhatIsNotThereIsNotFoundAndNamed) {
  const auto missing = path_.string();
  EXPECT_THAT([&] { files_.open(path_, OpenMode::read); },
              fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.remove_file(path_); }, fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.remove_directory(path_); }, fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.rename(path_, dir_ / "to"); },
              fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.link(path_, dir_ / "to"); }, fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.list(path_); }, fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.sync_directory(path_); }, fails_with(ErrorCode::not_found, missing));
  EXPECT_THAT([&] { files_.free_bytes(path_); }, fails_with(ErrorCode::not_found, missing));
}

TEST_F(PosixFileSystemTest, MissingFolderOfANewFileIsAnIoError) {
  const auto path = dir_ / "nowhere" / "file";
  EXPECT_THAT([&] { files_.open(path, OpenMode::create); },
              fails_with(ErrorCode::io, path.string()));
  EXPECT_THAT([&] { files_.create_directory(path); }, fails_with(ErrorCode::io, path.string()));
  EXPECT_THAT([&] { files_.lock(path); }, fails_with(ErrorCode::io, path.string()));
}

TEST_F(PosixFileSystemTest, LoopOfSymbolicLinksIsAnIoError) {
  std::filesystem::create_symlink(path_, path_);
  EXPECT_THAT([&] { files_.open(path_, OpenMode::read); },
              fails_with(ErrorCode::io, path_.string()));
  EXPECT_THAT([&] { files_.status(path_); }, fails_with(ErrorCode::io, path_.string()));
}

TEST_F(PosixFileSystemTest, RenameReplacesItsTarget) {
  write(path_, "new");
  write(dir_ / "to", "old");
  files_.rename(path_, dir_ / "to");
  EXPECT_EQ(contents(dir_ / "to"), "new");
  EXPECT_FALSE(files_.status(path_));
}

TEST_F(PosixFileSystemTest, LinkGivesASecondNameAndReplacesNothing) {
  write(path_, "new");
  files_.link(path_, dir_ / "second");
  files_.remove_file(path_);
  EXPECT_EQ(contents(dir_ / "second"), "new");

  write(path_, "other");
  EXPECT_THAT([&] { files_.link(path_, dir_ / "second"); },
              fails_with(ErrorCode::already_exists, (dir_ / "second").string()));
  EXPECT_EQ(contents(dir_ / "second"), "new");
}

TEST_F(PosixFileSystemTest, StatusTellsFilesFoldersAndNothingApart) {
  write(path_, "gradient");
  const auto file = files_.status(path_);
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->is_directory);
  EXPECT_EQ(file->length, 8u);
  const std::int64_t year_2020_ns = 1'577'836'800'000'000'000;
  EXPECT_GT(file->modified_unix_ns, year_2020_ns);
  EXPECT_TRUE(files_.status(dir_.path())->is_directory);
  EXPECT_FALSE(files_.status(dir_ / "absent"));
  EXPECT_FALSE(files_.status(path_ / "below a file"));
}

TEST_F(PosixFileSystemTest, ListIsSortedAndHasAllNames) {
  write(dir_ / "b", "");
  write(dir_ / ".hidden", "");
  write(dir_ / "B", "");
  files_.create_directory(dir_ / "a");
  EXPECT_THAT(files_.list(dir_.path()), ElementsAre(".hidden", "B", "a", "b"));
  EXPECT_THAT(files_.list(dir_ / "a"), ElementsAre());
}

TEST_F(PosixFileSystemTest, CreateDirectoryAcceptsAFolderThatIsThereButNoFile) {
  files_.create_directory(dir_ / "folder");
  files_.create_directory(dir_ / "folder");
  EXPECT_TRUE(files_.status(dir_ / "folder")->is_directory);

  write(path_, "");
  EXPECT_THAT([&] { files_.create_directory(path_); },
              fails_with(ErrorCode::already_exists, path_.string()));
}

TEST_F(PosixFileSystemTest, RemoveDirectoryRefusesOneWithContents) {
  files_.create_directory(dir_ / "folder");
  write(dir_ / "folder" / "file", "");
  EXPECT_THAT([&] { files_.remove_directory(dir_ / "folder"); },
              fails_with(ErrorCode::io, (dir_ / "folder").string()));
  files_.remove_file(dir_ / "folder" / "file");
  files_.remove_directory(dir_ / "folder");
  EXPECT_FALSE(files_.status(dir_ / "folder"));
}

TEST_F(PosixFileSystemTest, SyncingFilesAndFoldersSucceeds) {
  const auto file = files_.open(path_, OpenMode::create);
  file->write_at(0, std::as_bytes(std::span("12345", 5)));
  EXPECT_NO_THROW(file->sync());
  EXPECT_NO_THROW(files_.sync_directory(dir_.path()));
}

TEST_F(PosixFileSystemTest, FreeSpaceIsToldInBytes) {
  EXPECT_EQ(files_.free_bytes(dir_.path()) / (1 << 30),
            std::filesystem::space(dir_.path()).available / (1 << 30));
}

}  // namespace
}  // namespace gradstore::io
