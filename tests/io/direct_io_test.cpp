#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>

#include "io/aligned_buffer.h"
#include "io/file_system.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::io {
namespace {

using gradstore::testing::fails_with;
using gradstore::testing::TempDir;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

class DirectIoTest : public ::testing::Test {
 protected:
  static AlignedBuffer random_bytes(std::size_t size) {
    AlignedBuffer buffer(size);
    std::mt19937 random(7);
    std::generate_n(buffer.data(), size, [&] { return static_cast<std::byte>(random()); });
    return buffer;
  }

  // Writes in two blocks, then reads it directly and through the page cache.
  void expect_round_trip(const Path& path) {
    const AlignedBuffer written = random_bytes(2 * kMebibyte);
    {
      const auto file = files_.open(path, OpenMode::create, Caching::direct);
      EXPECT_TRUE(std::has_single_bit(file->alignment()));
      EXPECT_LE(file->alignment(), AlignedBuffer::kAlignment);
      file->allocate(written.size());
      file->write_at(kMebibyte, written.bytes().subspan(kMebibyte));
      file->write_at(0, written.bytes().first(kMebibyte));
      file->sync();
      EXPECT_EQ(file->length(), written.size());
    }
    for (const auto caching : {Caching::direct, Caching::buffered}) {
      const AlignedBuffer read(written.size());
      EXPECT_EQ(files_.open(path, OpenMode::read, caching)->read_at(0, read.bytes()), read.size());
      EXPECT_TRUE(std::ranges::equal(read.bytes(), written.bytes()));
    }
  }

  TempDir dir_;
  Path path_ = dir_ / "file";
  FileSystem& files_ = *posix_file_system();
};

TEST_F(DirectIoTest, RoundTripOnDisk) { expect_round_trip(path_); }

TEST_F(DirectIoTest, RoundTripInMemoryFileSystem) {
  if (!files_.status("/dev/shm")) GTEST_SKIP() << "there is no /dev/shm";
  const Path path = "/dev/shm" / dir_.path().filename();
  expect_round_trip(path);
  files_.remove_file(path);
}

TEST_F(DirectIoTest, FileSystemThatRefusesItIsReadThroughThePageCache) {
  const auto file = files_.open("/proc/self/stat", OpenMode::read, Caching::direct);
  EXPECT_EQ(file->alignment(), 1u);
  std::string text(3, '?');
  EXPECT_EQ(file->read_at(1, std::as_writable_bytes(std::span(text))), 3u);
}

TEST_F(DirectIoTest, BufferedFilesAskForNoAlignment) {
  const auto file = files_.open(path_, OpenMode::create);
  EXPECT_EQ(file->alignment(), 1u);
  EXPECT_NO_THROW(file->write_at(3, std::as_bytes(std::span("12345", 5))));
}

TEST_F(DirectIoTest, ReadStopsAtAnEndInsideAnAlignedUnit) {
  const AlignedBuffer buffer(kMebibyte);
  const auto file = files_.open(path_, OpenMode::create, Caching::direct);
  file->write_at(0, buffer.bytes());
  file->truncate(kMebibyte - 100);
  EXPECT_EQ(file->read_at(0, buffer.bytes()), kMebibyte - 100);
}

TEST_F(DirectIoTest, UnalignedTransferIsToldAsOurFaultAndChangesNothing) {
  const AlignedBuffer buffer(8192);
  const auto file = files_.open(path_, OpenMode::create, Caching::direct);
  if (file->alignment() == 1) GTEST_SKIP() << "no direct I/O at " << dir_.path();
  const auto refused = fails_with(ErrorCode::internal, "direct I/O is aligned");
  EXPECT_THAT([&] { file->write_at(1, buffer.bytes()); }, refused);
  EXPECT_THAT([&] { file->write_at(0, buffer.bytes().first(100)); }, refused);
  EXPECT_THAT([&] { file->write_at(0, buffer.bytes().subspan(1, 4096)); }, refused);
  EXPECT_THAT([&] { file->read_at(0, buffer.bytes().first(100)); }, refused);
  EXPECT_EQ(file->length(), 0u);
}

}  // namespace
}  // namespace gradstore::io
