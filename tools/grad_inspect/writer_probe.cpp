#include "writer_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gradstore/error.h"

namespace gradstore::inspect {

std::optional<Writer> find_writer(const std::filesystem::path& lock) {
  const auto fail = [&lock](const char* verb) {
    return Error(ErrorCode::io,
                 std::string(verb) + " the lock " + lock.string() + ": " + std::strerror(errno));
  };
  const int fd = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd == -1) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw fail("Opening");
  }
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  const bool asked = ::fcntl(fd, F_GETLK, &range) == 0;
  const auto failure = fail("Looking at");
  ::close(fd);
  if (!asked) throw failure;
  if (range.l_type == F_UNLCK) return std::nullopt;
  return Writer{range.l_pid > 0 ? range.l_pid : 0};
}

}  // namespace gradstore::inspect
