#include "io/aligned_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace gradstore::io {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(pages);
  size_ = bytes;
  pid_ = ::getpid();

  // Hints: a kernel without one of them only makes us slower.
  ::madvise(data_, size_, MADV_DONTFORK);
  if (size_ >= kHugePage) ::madvise(data_, size_, MADV_HUGEPAGE);
}

AlignedBuffer::~AlignedBuffer() {
  // In a forked child the pages are not there, and something else may be in their place.
  if (data_ != nullptr && pid_ == ::getpid()) ::munmap(data_, size_);
}

void AlignedBuffer::touch() {
  if (size_ == 0) return;
#ifdef MADV_POPULATE_WRITE
  if (::madvise(data_, size_, MADV_POPULATE_WRITE) == 0) return;
  if (errno == ENOMEM) throw std::bad_alloc();
#endif
  for (std::size_t i = 0; i < size_; i += kAlignment) {
    volatile std::byte& byte = data_[i];
    byte = static_cast<std::byte>(byte);
  }
}

}  // namespace gradstore::io
