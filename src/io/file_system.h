// The seam through which every byte reaches the disk.
//
// PosixFileSystem is the real one; tests put a faulty or a simulated one in its place. The index's
// RocksDB goes through the same seam (index/rocksdb_file_system.h), so that one simulated disk
// holds both. All paths are absolute or relative to the working directory. All functions throw
// Error naming the operation and the path: {io} unless they say otherwise, but {not_found} where an
// existing file or folder was named that is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gradstore::io {

using Path = std::filesystem::path;

/// How a file is opened.
enum class OpenMode {
  read,             ///< Existing file, to read.
  create,           ///< New file, to write and read; Error{already_exists} if there is one.
  create_or_empty,  ///< New file or an emptied old one, to write and read.
  append,           ///< Existing file, kept as it is, or new one: write_at(length(), ...) appends.
};

/// Whether the page cache is used. `direct` falls back to buffered where it is refused.
enum class Caching { buffered, direct };

/// One open file. Reads and writes at different offsets may run concurrently.
class File {
 public:
  virtual ~File() = default;  ///< Closes. Reports nothing: who must know calls sync() first.

  /// Writes all of `bytes` at `offset` (loops on short writes and EINTR). With Caching::direct in
  /// force, address, offset and length must be multiples of alignment().
  virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Reads until `bytes` is full or the file ends; returns how many bytes were read. Aligned as
  /// writes are; the file's own end need not be.
  virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const = 0;
  /// Reserves `length` bytes of space and extends the file to it: fallocate, else ftruncate. A
  /// longer file keeps its length.
  virtual void allocate(std::uint64_t length) = 0;
  virtual void truncate(std::uint64_t length) = 0;
  /// fdatasync: contents and length are durable on return. After a failure the file is lost:
  /// never retried, its pages may have been dropped.
  virtual void sync() = 0;
  virtual std::uint64_t length() const = 0;
  /// Required alignment of memory and offsets: 1 when buffered, else what the device asks for.
  virtual std::size_t alignment() const = 0;
};

struct FileStatus {
  bool is_directory = false;
  std::uint64_t length = 0;
  std::int64_t modified_unix_ns = 0;
};

/// A lock held by this process until destroyed or until the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<File> open(const Path& path, OpenMode mode,
                                     Caching caching = Caching::buffered) = 0;
  virtual std::optional<FileStatus> status(const Path& path) = 0;  ///< Nothing where there is none.
  /// Names, sorted, without "." and "..".
  virtual std::vector<std::string> list(const Path& directory) = 0;
  /// The parent must be there. No error if the folder itself is; Error{already_exists} for a file.
  virtual void create_directory(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;  ///< Replaces `to`.
  /// Makes a second name. Error{already_exists} if `to` is there.
  virtual void link(const Path& from, const Path& to) = 0;
  virtual void remove_file(const Path& path) = 0;
  virtual void remove_directory(const Path& path) = 0;  ///< Must be empty.
  virtual void sync_directory(const Path& path) = 0;  ///< Names made or removed in it are durable.
  virtual std::uint64_t free_bytes(const Path& path) = 0;  ///< Available to this user on its disk.
  /// Takes an exclusive lock with fcntl(F_SETLK) on `path`, made if missing: it ends with the
  /// process and no child inherits it. Error{busy} naming the holder's pid, also when this very
  /// process holds it. Nothing else may open `path`: any close of it would drop the lock.
  virtual std::unique_ptr<FileLock> lock(const Path& path) = 0;
};

/// The operating system's files. One instance serves all.
std::shared_ptr<FileSystem> posix_file_system();

/// Whole contents of a small file. Error{io} when it is longer than `limit` bytes.
std::string read_whole(FileSystem& files, const Path& path, std::size_t limit);

/// Writes `contents` to a temporary neighbour (`path` + ".tmp"), syncs it, renames it to `path`,
/// syncs the directory. After a failure `path` has its old or its new contents, whole.
void replace_durably(FileSystem& files, const Path& path, std::span<const std::byte> contents);

}  // namespace gradstore::io
