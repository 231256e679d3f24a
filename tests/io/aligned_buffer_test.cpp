#include "io/aligned_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

namespace gradstore::io {
namespace {

bool all_present(const AlignedBuffer& buffer) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((buffer.size() + page - 1) / page);
  EXPECT_EQ(::mincore(buffer.data(), buffer.size(), present.data()), 0);
  return std::ranges::all_of(present, [](unsigned char bits) { return (bits & 1) != 0; });
}

TEST(AlignedBufferTest, MemoryIsAlignedZeroedAndOfTheSizeAskedFor) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, (std::size_t{4} << 20) + 512}) {
    SCOPED_TRACE(size);
    const AlignedBuffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0u);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    EXPECT_TRUE(std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(AlignedBufferTest, EmptyBufferHasNoMemory) {
  AlignedBuffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.bytes().empty());
  EXPECT_NO_THROW(buffer.touch());
}

TEST(AlignedBufferTest, MovingHandsTheMemoryOver) {
  static_assert(!std::is_copy_constructible_v<AlignedBuffer>);
  AlignedBuffer first(4096);
  std::byte* const data = first.data();
  AlignedBuffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  AlignedBuffer third(8192);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 4096u);
  EXPECT_EQ(second.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(AlignedBufferTest, ImpossibleSizeIsBadAlloc) {
  EXPECT_THROW(AlignedBuffer(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
}

TEST(AlignedBufferTest, TouchMakesAllPagesPresentAndKeepsContents) {
  AlignedBuffer buffer((std::size_t{1} << 20) + 1);
  buffer.bytes().front() = std::byte{7};
  EXPECT_FALSE(all_present(buffer));
  buffer.touch();
  EXPECT_TRUE(all_present(buffer));
  EXPECT_EQ(buffer.bytes().front(), std::byte{7});
}

TEST(AlignedBufferTest, ForkedChildHasNoCopyAndItsDestructorUnmapsNothing) {
  AlignedBuffer buffer(4096);
  const pid_t child = ::fork();
  if (child == 0) {
    // Fails if the pages were inherited; puts something in their place if not.
    void* const other = ::mmap(buffer.data(), 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other != buffer.data()) ::_exit(1);
    buffer = AlignedBuffer();
    *static_cast<volatile char*>(other) = 1;  // Crashes if it is unmapped.
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gradstore::io
