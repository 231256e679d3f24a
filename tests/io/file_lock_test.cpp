#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>

#include "io/file_system.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::io {
namespace {

using gradstore::testing::fails_with;
using gradstore::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  void close_reader() { close(ends_[0]); }
  void close_writer() { close(ends_[1]); }
  void write(const std::string& text) {
    if (::write(ends_[1], text.data(), text.size()) < 0) ::_exit(3);
  }
  // Returns when no process can write any more.
  std::string read_all() {
    close_writer();
    std::string text;
    char c = 0;
    while (::read(ends_[0], &c, 1) == 1) text += c;
    return text;
  }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  std::array<int, 2> ends_{};
};

pid_t start_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (...) {
    ::_exit(2);
  }
  ::_exit(0);
}

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class FileLockTest : public ::testing::Test {
 protected:
  // What another process is told that wants the lock: "" when it gets it. Runs `first` before.
  std::string answer_to_a_child(const std::function<void()>& first = [] {}) {
    Pipe answer;
    const pid_t child = start_child([&] {
      first();
      try {
        files_.lock(path_);
      } catch (const Error& error) {
        answer.write(std::string(name_of(error.code())) + ": " + error.what());
      }
    });
    const auto text = answer.read_all();
    EXPECT_EQ(status_of(child), 0);
    return text;
  }

  static auto is_busy_with(pid_t holder) {
    return AllOf(HasSubstr("busy: "), HasSubstr("process " + std::to_string(holder)));
  }

  TempDir dir_;
  Path path_ = dir_ / "lock";
  FileSystem& files_ = *posix_file_system();
};

TEST_F(FileLockTest, LockIsFreeAgainWhenItsObjectIsGone) {
  files_.lock(path_).reset();
  EXPECT_EQ(answer_to_a_child(), "");
  EXPECT_NO_THROW(files_.lock(path_));
}

TEST_F(FileLockTest, OtherProcessIsToldTheHoldersPid) {
  const auto lock = files_.lock(path_);
  EXPECT_THAT(answer_to_a_child(), AllOf(is_busy_with(::getpid()), HasSubstr(path_.string())));
}

TEST_F(FileLockTest, SecondLockInTheSameProcessIsBusyAndDoesNotDropTheFirst) {
  const auto lock = files_.lock(path_);
  EXPECT_THAT(
      [&] { files_.lock(path_); },
      fails_with(ErrorCode::busy, "this very process (" + std::to_string(::getpid()) + ")"));
  EXPECT_THAT(answer_to_a_child(), is_busy_with(::getpid()));
}

TEST_F(FileLockTest, RefusedLocksLeaveNoDescriptorOpen) {
  const auto open_descriptors = [&] { return files_.list("/proc/self/fd").size(); };
  const auto lock = files_.lock(path_);
  const auto before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT([&] { files_.lock(path_); }, fails_with(ErrorCode::busy, path_.string()));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FileLockTest, OtherNamesOfTheLockFileAreTheSameLock) {
  const auto lock = files_.lock(path_);
  std::filesystem::create_symlink(path_, dir_ / "symbolic");
  std::filesystem::create_hard_link(path_, dir_ / "hard");
  EXPECT_THAT([&] { files_.lock(dir_ / "symbolic"); }, fails_with(ErrorCode::busy, "symbolic"));
  EXPECT_THAT([&] { files_.lock(dir_ / "hard"); }, fails_with(ErrorCode::busy, "hard"));
  EXPECT_THAT(answer_to_a_child(), is_busy_with(::getpid()));
}

TEST_F(FileLockTest, DifferentFilesAreDifferentLocks) {
  const auto lock = files_.lock(path_);
  EXPECT_NO_THROW(files_.lock(dir_ / "other lock"));
}

TEST_F(FileLockTest, ChildThatDestroysItsCopyDoesNotDropTheParentsLock) {
  auto lock = files_.lock(path_);
  EXPECT_THAT(answer_to_a_child([&] { lock.reset(); }), is_busy_with(::getpid()));
  EXPECT_THAT(answer_to_a_child(), is_busy_with(::getpid()));
}

TEST_F(FileLockTest, LockOfADeadProcessIsFreeWhileItsOrphanLives) {
  Pipe orphan_pid;
  Pipe orphan_may_end;
  const pid_t holder = start_child([&] {
    const auto lock = files_.lock(path_);
    const pid_t orphan = start_child([&] {
      orphan_pid.close_writer();
      orphan_may_end.read_all();
    });
    orphan_pid.write(std::to_string(orphan));
    std::raise(SIGKILL);
  });
  const pid_t orphan = std::stoi(orphan_pid.read_all());
  ASSERT_TRUE(WIFSIGNALED(status_of(holder)));

  EXPECT_EQ(::kill(orphan, 0), 0) << "the orphan has ended too early to show anything";
  EXPECT_NO_THROW(files_.lock(path_));
  orphan_may_end.close_writer();
}

TEST_F(FileLockTest, ChildThatTookOverADeadParentsLockKeepsItWhenItDropsItsCopy) {
  Pipe child_told;
  Pipe child_may_end;
  const pid_t parent = start_child([&] {
    auto lock = files_.lock(path_);
    const pid_t own_pid = ::getpid();
    start_child([&] {
      while (::getppid() == own_pid) ::sched_yield();
      const auto taken_over = files_.lock(path_);
      lock.reset();
      child_told.write(std::to_string(::getpid()));
      child_told.close_writer();
      child_may_end.read_all();
    });
    std::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status_of(parent)));
  const auto child = child_told.read_all();
  EXPECT_THAT([&] { files_.lock(path_); }, fails_with(ErrorCode::busy, "process " + child));
  child_may_end.close_writer();
}

}  // namespace
}  // namespace gradstore::io
