#include "index/rocksdb_file_system.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradstore/error.h"

namespace gradstore::index {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The seam knows no code for a full disk; the operating system's text is all there is.
bool is_no_space(const std::string& text) {
  return text.find("No space left on device") != std::string::npos;
}

IOStatus status_of(const Error& error) {
  const std::string text = describe(error);
  switch (error.code()) {
    case ErrorCode::not_found: return IOStatus::PathNotFound(text);
    case ErrorCode::busy: return IOStatus::Busy(text);
    case ErrorCode::invalid_argument:
    case ErrorCode::already_exists:
    case ErrorCode::corrupt:
    case ErrorCode::incompatible:
    case ErrorCode::io:
    case ErrorCode::internal: break;
  }
  return is_no_space(text) ? IOStatus::NoSpace(text) : IOStatus::IOError(text);
}

template <class Operation>
IOStatus guarded(Operation operation) noexcept {
  try {
    operation();
    return IOStatus::OK();
  } catch (const Error& error) {
    return status_of(error);
  } catch (const std::exception& error) {
    return IOStatus::IOError(error.what());
  }
}

rocksdb::Slice read(const io::File& file, std::uint64_t offset, std::size_t size, char* scratch) {
  const std::span buffer(scratch, size);
  return {scratch, file.read_at(offset, std::as_writable_bytes(buffer))};
}

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  explicit SequentialFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}

  IOStatus Read(size_t size, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) override {
    return guarded([&] {
      *result = read(*file_, offset_, size, scratch);
      offset_ += result->size();
    });
  }

  IOStatus Skip(uint64_t size) override {
    offset_ += size;
    return IOStatus::OK();
  }

 private:
  std::unique_ptr<io::File> file_;
  std::uint64_t offset_ = 0;
};

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  explicit RandomAccessFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions&, rocksdb::Slice* result,
                char* scratch, IODebugContext*) const override {
    return guarded([&] { *result = read(*file_, offset, size, scratch); });
  }

 private:
  std::unique_ptr<io::File> file_;
};

// Keeps no bytes to itself and reserves no space: what RocksDB appended is in the file.
class WritableFile : public rocksdb::FSWritableFile {
 public:
  using rocksdb::FSWritableFile::Append;

  WritableFile(std::unique_ptr<io::File> file, const FileOptions& options)
      : rocksdb::FSWritableFile(options), file_(std::move(file)), end_(file_->length()) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    return guarded([&] {
      file_->write_at(end_, std::as_bytes(std::span(data.data(), data.size())));
      end_ += data.size();
    });
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return guarded([&] {
      file_->truncate(size);
      end_ = size;
    });
  }

  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return guarded([&] { file_->sync(); });
  }

  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return end_; }

 private:
  std::unique_ptr<io::File> file_;
  std::uint64_t end_;
};

class Directory : public rocksdb::FSDirectory {
 public:
  Directory(std::shared_ptr<io::FileSystem> files, io::Path path)
      : files_(std::move(files)), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return guarded([&] { files_->sync_directory(path_); });
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

struct HeldLock : rocksdb::FileLock {
  explicit HeldLock(std::unique_ptr<io::FileLock> held) : lock(std::move(held)) {}
  std::unique_ptr<io::FileLock> lock;
};

// Derives from the interface, not from rocksdb::FileSystemWrapper: what is forgotten here fails to
// compile or is NotSupported, but never goes past the seam.
class SeamFileSystem : public rocksdb::FileSystem {
 public:
  SeamFileSystem(std::shared_ptr<io::FileSystem> files, Access access)
      : files_(std::move(files)), access_(access) {}

  const char* Name() const override { return "gradstore"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext*) override {
    return guarded([&] {
      *result = std::make_unique<SequentialFile>(files_->open(path, io::OpenMode::read));
    });
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext*) override {
    return guarded([&] {
      *result = std::make_unique<RandomAccessFile>(files_->open(path, io::OpenMode::read));
    });
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext*) override {
    return changing([&] {
      auto file = files_->open(path, io::OpenMode::create_or_empty);
      *result = std::make_unique<WritableFile>(std::move(file), options);
    });
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext*) override {
    return changing([&] {
      auto file = files_->open(path, io::OpenMode::append);
      *result = std::make_unique<WritableFile>(std::move(file), options);
    });
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
    return guarded([&] {
      require(path);
      *result = std::make_unique<Directory>(files_, path);
    });
  }

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    bool exists = false;
    const auto status = guarded([&] { exists = files_->status(path).has_value(); });
    return status.ok() && !exists ? IOStatus::NotFound(path) : status;
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    const auto status = guarded([&] { *result = files_->list(path); });
    return status.IsPathNotFound() ? IOStatus::NotFound(path) : status;
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size,
                       IODebugContext*) override {
    return guarded([&] { *size = require(path).length; });
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* seconds,
                                   IODebugContext*) override {
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    return guarded(
        [&] { *seconds = static_cast<uint64_t>(require(path).modified_unix_ns / kNanoseconds); });
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_directory,
                       IODebugContext*) override {
    return guarded([&] { *is_directory = require(path).is_directory; });
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return changing([&] { files_->remove_file(path); });
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions&,
                    IODebugContext*) override {
    return changing([&] { files_->open(path, io::OpenMode::append)->truncate(size); });
  }

  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return changing([&] {
      if (files_->status(path)) throw Error(ErrorCode::already_exists, path + " exists");
      files_->create_directory(path);
    });
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    return changing([&] { files_->create_directory(path); });
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return changing([&] { files_->remove_directory(path); });
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return changing([&] { files_->rename(from, to); });
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions&,
                    IODebugContext*) override {
    return changing([&] { files_->link(from, to); });
  }

  // RocksDB opens its lock file nowhere else, as io::FileSystem::lock() demands.
  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    *lock = nullptr;
    return changing([&] { *lock = new HeldLock(files_->lock(path)); });  // Freed by UnlockFile().
  }

  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete static_cast<HeldLock*>(lock);
    return IOStatus::OK();
  }

  IOStatus GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* bytes,
                        IODebugContext*) override {
    return guarded([&] { *bytes = files_->free_bytes(path); });
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    return guarded([&] { *absolute = std::filesystem::absolute(path).string(); });
  }

  IOStatus GetTestDirectory(const IOOptions&, std::string*, IODebugContext*) override {
    return IOStatus::NotSupported("there is no test directory");
  }

  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>*,
                     IODebugContext*) override {
    return IOStatus::NotSupported("the index keeps no log");
  }

 private:
  template <class Operation>
  IOStatus changing(Operation operation) noexcept {
    if (access_ == Access::read_only) return IOStatus::NotSupported("a view changes nothing");
    return guarded(operation);
  }

  io::FileStatus require(const std::string& path) const {
    const auto status = files_->status(path);
    if (!status) throw Error(ErrorCode::not_found, path + " is not there");
    return *status;
  }

  std::shared_ptr<io::FileSystem> files_;
  Access access_;
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> rocksdb_file_system(std::shared_ptr<io::FileSystem> files,
                                                         Access access) {
  return std::make_shared<SeamFileSystem>(std::move(files), access);
}

}  // namespace gradstore::index
