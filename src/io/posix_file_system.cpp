#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/ensure.h"
#include "io/file_system.h"
#include "io/posix_descriptor.h"
#include "io/posix_file_lock.h"

namespace gradstore::io {

namespace {

static_assert(sizeof(off_t) == 8, "files are longer than 2 GiB");

constexpr std::size_t kLongestTransfer = std::size_t{1} << 30;  // Linux moves < 2^31 bytes a call.
constexpr std::size_t kUsualAlignment = 4096;

// What direct I/O on this file asks of memory and offsets; 0 where the file cannot do it.
std::size_t direct_alignment([[maybe_unused]] int fd) {
#ifdef STATX_DIOALIGN
  struct statx status = {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    return std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
  }
#endif
  return kUsualAlignment;
}

// Turns direct I/O on and returns its alignment, or 1 where it is refused. Not with a flag of
// open(2): where that is refused with EINVAL, O_CREAT has already made the file.
std::size_t try_direct(int fd, const Path& path) {
  const auto alignment = direct_alignment(fd);
  if (alignment == 0) return 1;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags != -1 && ::fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) return alignment;
  if (errno == EINVAL || errno == EOPNOTSUPP) return 1;
  fail("Turning on direct I/O for " + path.string(), errno);
}

class PosixFile : public File {
 public:
  PosixFile(Descriptor file, Path path, Caching caching)
      : file_(std::move(file)),
        path_(std::move(path)),
        alignment_(caching == Caching::direct ? try_direct(file_.get(), path_) : 1) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    require_alignment(offset, bytes);
    for (std::size_t done = 0; done < bytes.size();) {
      const auto size = std::min(bytes.size() - done, kLongestTransfer);
      const auto written = uninterrupted([&] {
        return ::pwrite(file_.get(), bytes.data() + done, size, static_cast<off_t>(offset + done));
      });
      if (written == -1) fail(describe_transfer("Writing", offset, bytes.size()), errno);
      const auto advanced = whole_units(static_cast<std::size_t>(written));
      if (advanced == 0) {
        throw Error(ErrorCode::io, describe_transfer("Writing", offset, bytes.size()) +
                                       ": it stopped after " + std::to_string(done) + " bytes");
      }
      done += advanced;
    }
  }

  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    require_alignment(offset, bytes);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto size = std::min(bytes.size() - done, kLongestTransfer);
      const auto read = uninterrupted([&] {
        return ::pread(file_.get(), bytes.data() + done, size, static_cast<off_t>(offset + done));
      });
      if (read == -1) fail(describe_transfer("Reading", offset, bytes.size()), errno);
      done += static_cast<std::size_t>(read);
      // Stop at a broken unit too: it is the file's end, and no direct read may start there.
      if (read == 0 || done != whole_units(done)) break;
    }
    return done;
  }

  void allocate(std::uint64_t length) override {
    if (length == 0) return;
    const auto size = static_cast<off_t>(length);
    if (uninterrupted([&] { return ::fallocate(file_.get(), 0, 0, size); }) == 0) return;
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
      fail("Reserving " + std::to_string(length) + " bytes for " + path_.string(), errno);
    }
    if (this->length() < length) truncate(length);
  }

  void truncate(std::uint64_t length) override {
    const auto size = static_cast<off_t>(length);
    if (uninterrupted([&] { return ::ftruncate(file_.get(), size); }) == -1) {
      fail("Setting the length of " + path_.string() + " to " + std::to_string(length), errno);
    }
  }

  void sync() override {
    if (uninterrupted([&] { return ::fdatasync(file_.get()); }) == -1) {
      fail("Syncing " + path_.string(), errno);
    }
  }

  std::uint64_t length() const override {
    struct stat status = {};
    if (::fstat(file_.get(), &status) == -1) fail("Asking the length of " + path_.string(), errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

  std::size_t alignment() const override { return alignment_; }

 private:
  std::size_t whole_units(std::size_t bytes) const { return bytes - bytes % alignment_; }

  void require_alignment(std::uint64_t offset, std::span<const std::byte> bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    ensure((address | offset | bytes.size()) % alignment_ == 0, "direct I/O is aligned");
  }

  std::string describe_transfer(const char* verb, std::uint64_t offset, std::size_t size) const {
    return std::string(verb) + " " + std::to_string(size) + " bytes at offset " +
           std::to_string(offset) + " of " + path_.string();
  }

  Descriptor file_;
  Path path_;
  std::size_t alignment_;
};

int open_flags(OpenMode mode) {
  switch (mode) {
    case OpenMode::read: return O_RDONLY;
    case OpenMode::create: return O_RDWR | O_CREAT | O_EXCL;
    case OpenMode::create_or_empty: return O_RDWR | O_CREAT | O_TRUNC;
    case OpenMode::append: return O_RDWR | O_CREAT;  // O_APPEND would make pwrite ignore offsets.
  }
  throw Error(ErrorCode::internal, "unknown OpenMode");
}

class PosixFileSystem : public FileSystem {
 public:
  std::unique_ptr<File> open(const Path& path, OpenMode mode, Caching caching) override {
    const int flags = open_flags(mode) | O_CLOEXEC;
    Descriptor file(uninterrupted([&] { return ::open(path.c_str(), flags, 0666); }));
    if (file.get() == -1 && mode == OpenMode::read) {
      fail("Opening " + path.string() + " to read", errno);
    }
    if (file.get() == -1) fail("Opening " + path.string() + " to write", errno, ErrorCode::io);
    return std::make_unique<PosixFile>(std::move(file), path, caching);
  }

  std::optional<FileStatus> status(const Path& path) override {
    struct stat status = {};
    if (::stat(path.c_str(), &status) == -1) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      fail("Looking at " + path.string(), errno);
    }
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    return FileStatus{S_ISDIR(status.st_mode), static_cast<std::uint64_t>(status.st_size),
                      status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }

  std::vector<std::string> list(const Path& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) fail("Listing " + directory.string(), error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  void create_directory(const Path& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return;
    const int error = errno;
    if (error == EEXIST) {
      const auto found = status(path);
      if (found && found->is_directory) return;
    }
    fail("Creating the folder " + path.string(), error, ErrorCode::io);
  }

  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) == -1) {
      fail("Renaming " + from.string() + " to " + to.string(), errno);
    }
  }

  void link(const Path& from, const Path& to) override {
    if (::link(from.c_str(), to.c_str()) == -1) {
      fail("Linking " + from.string() + " to " + to.string(), errno);
    }
  }

  void remove_file(const Path& path) override {
    if (::unlink(path.c_str()) == -1) fail("Removing " + path.string(), errno);
  }

  void remove_directory(const Path& path) override {
    if (::rmdir(path.c_str()) == -1) fail("Removing the folder " + path.string(), errno);
  }

  void sync_directory(const Path& path) override {
    const std::string what = "Syncing the folder " + path.string();
    const Descriptor directory(
        uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (directory.get() == -1) fail(what, errno);
    if (uninterrupted([&] { return ::fsync(directory.get()); }) == -1) fail(what, errno);
  }

  std::uint64_t free_bytes(const Path& path) override {
    struct statvfs status = {};
    if (uninterrupted([&] { return ::statvfs(path.c_str(), &status); }) == -1) {
      fail("Asking the free space at " + path.string(), errno);
    }
    return std::uint64_t{status.f_bavail} * std::uint64_t{status.f_frsize};
  }

  std::unique_ptr<FileLock> lock(const Path& path) override { return lock_posix_file(path); }
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system() {
  static const auto files = std::make_shared<PosixFileSystem>();
  return files;
}

}  // namespace gradstore::io
