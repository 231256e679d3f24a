#include "limits.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace gradstore::bench {

namespace {

constexpr std::size_t kBlock = 8u << 20;

void require(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

// Calls `transfer(offset, length)` for each block from four threads.
template <typename F>
void in_blocks(std::size_t bytes, F transfer) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const auto offset = next.fetch_add(kBlock);
        if (offset >= bytes) return;
        const auto length = std::min(kBlock, bytes - offset);
        if (transfer(offset, length) != static_cast<ssize_t>(length))
          std::abort();  // a limit that failed measures nothing
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) / 1e9;
}

double copy_with_two_threads(std::span<const std::byte> from, std::span<std::byte> to) {
  const auto start = now_ns();
  const auto half = from.size() / 2;
  std::thread other([&] { std::memcpy(to.data(), from.data(), half); });
  std::memcpy(to.data() + half, from.data() + half, from.size() - half);
  other.join();
  return seconds_since(start);
}

double write_direct(const std::filesystem::path& path, std::span<const std::byte> bytes,
                    Reserve reserve) {
  std::filesystem::remove(path);
  const auto start = now_ns();
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0644);
  require(file >= 0, "open");
  const auto length = static_cast<off_t>(bytes.size());
  if (reserve == Reserve::truncate) require(ftruncate(file, length) == 0, "ftruncate");
  if (reserve == Reserve::allocate) require(fallocate(file, 0, 0, length) == 0, "fallocate");
  in_blocks(bytes.size(), [&](std::size_t offset, std::size_t count) {
    return pwrite(file, bytes.data() + offset, count, static_cast<off_t>(offset));
  });
  require(fsync(file) == 0, "fsync");
  close(file);
  return seconds_since(start);
}

double read_direct(const std::filesystem::path& path, std::span<std::byte> into) {
  const auto start = now_ns();
  const int file = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  require(file >= 0, "open");
  in_blocks(into.size(), [&](std::size_t offset, std::size_t count) {
    return pread(file, into.data() + offset, count, static_cast<off_t>(offset));
  });
  close(file);
  return seconds_since(start);
}

}  // namespace gradstore::bench
