#include "io/posix_file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "io/posix_descriptor.h"

// Note [Losing a fcntl lock]
//
// fcntl locks belong to (process, inode). That is what we want of fork: a child, and so an orphaned
// DataLoader worker, neither holds nor inherits them. The price is that
//
//   - the same process may lock a second time and is told yes;
//   - closing *any* descriptor of that file in the process drops its lock.
//
// So the process keeps a table of the inodes it holds, and looks there, with stat(2), before it
// opens a lock file. An entry remembers the pid that made it: in a forked child it counts for
// nothing, and the child's copy of the lock object leaves its descriptor open, because closing
// it would drop a lock that the child itself has taken since.

namespace gradstore::io {

namespace {

using FileIdentity = std::pair<dev_t, ino_t>;

struct HeldLocks {
  std::mutex mutex;
  std::map<FileIdentity, pid_t> holders;

  bool held_by_this_process(const FileIdentity& identity) const {
    const auto found = holders.find(identity);
    return found != holders.end() && found->second == ::getpid();
  }
};

HeldLocks& held_locks() {
  static auto* const locks = new HeldLocks;  // Never destroyed: locks may live in static objects.
  return *locks;
}

[[noreturn]] void refuse_as_busy(const Path& path, std::optional<pid_t> holder) {
  std::string who = "a process that cannot be seen from here";
  if (holder) who = "process " + std::to_string(*holder);
  if (holder == ::getpid()) who = "this very process (" + std::to_string(*holder) + ")";
  throw Error(ErrorCode::busy, "Locking " + path.string() + ": it is held by " + who);
}

class PosixFileLock : public FileLock {
 public:
  PosixFileLock(Descriptor file, FileIdentity identity)
      : file_(std::move(file)), identity_(identity) {}

  ~PosixFileLock() override {
    if (::getpid() != pid_) {
      file_.release();
      return;
    }
    const std::lock_guard guard(held_locks().mutex);
    held_locks().holders.erase(identity_);
    file_ = Descriptor(-1);  // Closed before the next lock() of this process looks.
  }

 private:
  Descriptor file_;
  FileIdentity identity_;
  pid_t pid_ = ::getpid();
};

struct flock whole_file() {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

// The pid of who holds the lock; nothing when it is on another machine or in another container.
std::optional<pid_t> holder_of(const Descriptor& file) {
  struct flock range = whole_file();
  if (::fcntl(file.get(), F_GETLK, &range) == -1 || range.l_type == F_UNLCK) return std::nullopt;
  if (range.l_pid <= 0) return std::nullopt;
  return range.l_pid;
}

}  // namespace

std::unique_ptr<FileLock> lock_posix_file(const Path& path) {
  HeldLocks& locks = held_locks();
  const std::lock_guard guard(locks.mutex);

  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 &&
      locks.held_by_this_process({status.st_dev, status.st_ino})) {
    refuse_as_busy(path, ::getpid());
  }

  Descriptor file(
      uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (file.get() == -1) fail("Opening the lock " + path.string(), errno, ErrorCode::io);
  if (::fstat(file.get(), &status) == -1) fail("Looking at the lock " + path.string(), errno);
  const FileIdentity identity(status.st_dev, status.st_ino);
  if (locks.held_by_this_process(identity)) {
    file.release();  // Somebody moved our lock file here meanwhile; closing it would drop the lock.
    refuse_as_busy(path, ::getpid());
  }

  pid_t& holder = locks.holders[identity];  // 0 for nobody. Made before there is a lock to lose.
  struct flock range = whole_file();
  if (::fcntl(file.get(), F_SETLK, &range) == -1) {
    if (errno == EACCES || errno == EAGAIN) refuse_as_busy(path, holder_of(file));
    fail("Locking " + path.string(), errno);
  }
  auto lock = std::make_unique<PosixFileLock>(std::move(file), identity);
  holder = ::getpid();
  return lock;
}

}  // namespace gradstore::io
