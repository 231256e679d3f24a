// One POSIX file descriptor, and how errno becomes an Error.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "gradstore/error.h"

namespace gradstore::io {

// Throws for `error`, a value of errno: "<what>: <strerror>". Nothing there is not_found; who
// creates something passes ErrorCode::io instead, since there its folder is what is missing.
[[noreturn]] inline void fail(const std::string& what, int error,
                              ErrorCode nothing_there = ErrorCode::not_found) {
  ErrorCode code = ErrorCode::io;
  if (error == ENOENT || error == ENOTDIR) code = nothing_there;
  if (error == EEXIST) code = ErrorCode::already_exists;
  throw Error(code, what + ": " + std::generic_category().message(error));
}

// Repeats a system call while a signal interrupts it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// Owns one descriptor. A destructor cannot report, so code that must know syncs first.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace gradstore::io
