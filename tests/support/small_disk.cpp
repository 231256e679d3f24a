#include "support/small_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "support/second_process.h"
#include "support/temp_dir.h"

namespace gradstore::testing {

namespace {

// Root may at once; others become root of a user namespace of their own, where that is allowed.
bool enter_own_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const auto user = std::to_string(::geteuid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

void on_a_disk_of(std::uint64_t bytes,
                  const std::function<void(const std::filesystem::path& disk)>& body) {
  if (role() == "small disk") {
    body(given_directory());
    return;
  }
  const TempDir mount_point;
  SecondProcess inside("small disk", mount_point.path(), [&] {
    const auto size = "size=" + std::to_string(bytes);
    return enter_own_namespace() &&
           ::mount("tmpfs", mount_point.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  });
  const int status = inside.finish();
  if (status == SecondProcess::kRefused)
    GTEST_SKIP() << "the kernel lets this user mount no tmpfs of their own";
  EXPECT_EQ(status, 0) << "see the output of the process with the small disk, above";
}

void leave_free(const std::filesystem::path& disk, std::uint64_t bytes, const char* name) {
  struct statvfs status = {};
  if (::statvfs(disk.c_str(), &status) != 0) throw std::runtime_error("statvfs failed");
  const auto free = std::uint64_t{status.f_bavail} * std::uint64_t{status.f_frsize};
  if (free <= bytes) return;
  const int file = ::open((disk / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (::fallocate(file, 0, 0, static_cast<off_t>(free - bytes)) != 0)
    throw std::runtime_error("fallocate failed");
  ::close(file);
}

void make_read_only(const std::filesystem::path& disk) {
  if (::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    throw std::runtime_error("remounting read-only failed");
}

}  // namespace gradstore::testing
