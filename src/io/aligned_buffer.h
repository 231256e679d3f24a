// Page-aligned memory for direct I/O and for copies that the training thread waits for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <utility>

namespace gradstore::io {

/// Owns zeroed anonymous pages, given back to the operating system at once when it goes.
///
/// A forked child does not get them (MADV_DONTFORK): with copy-on-write, the first memcpy after a
/// fork takes 14 times as long. There the object is inert, and bytes() must not be touched.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlignment = 4096;  ///< Of data(), at least.

  AlignedBuffer() = default;  ///< Empty.
  /// Errors: std::bad_alloc.
  explicit AlignedBuffer(std::size_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    AlignedBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~AlignedBuffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

  /// Makes every page present now, so that no later write faults. Contents stay.
  /// Errors: std::bad_alloc when there is not enough memory.
  void touch();

 private:
  void swap(AlignedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(pid_, other.pid_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  pid_t pid_ = 0;
};

}  // namespace gradstore::io
