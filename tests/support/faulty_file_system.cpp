#include "support/faulty_file_system.h"

#include <map>
#include <mutex>
#include <utility>

#include "gradstore/error.h"

namespace gradstore::testing {

// What is to happen and what has happened; shared by the file system and its files.
class FaultyFileSystem::Script {
 public:
  // Counts an operation. Throws when it is to fail, after calling `before_failing`.
  void count(
      const std::string& name, const io::Path& path, const std::string& more = {},
      const std::function<void()>& before_failing = [] {}) {
    Hook hook;
    std::string failure;
    {
      const std::lock_guard guard(mutex_);
      ++by_name_[name];
      const bool meant = path.string().find(path_part_) != std::string::npos;
      if (meant) ++since_arm_;
      const bool fails =
          armed_ && meant && (mode_ == Mode::once ? since_arm_ == nth_ : since_arm_ >= nth_);
      log_.push_back(name + " " + path.string() + more);
      if (fails) {
        fired_ = true;
        failure =
            "injected failure at operation " + std::to_string(since_arm_) + ": " + log_.back();
        log_.back() += " (failed)";
      }
      hook = hook_;
    }
    if (hook) hook(name, path);
    if (failure.empty()) return;
    before_failing();
    throw Error(ErrorCode::io, failure);
  }

  void arm(std::size_t nth, Mode mode, std::string path_part) {
    const std::lock_guard guard(mutex_);
    armed_ = true;
    fired_ = false;
    since_arm_ = 0;
    nth_ = nth;
    mode_ = mode;
    path_part_ = std::move(path_part);
  }

  void disarm() {
    const std::lock_guard guard(mutex_);
    armed_ = false;
  }

  bool fired() const {
    const std::lock_guard guard(mutex_);
    return fired_;
  }

  void set_torn_writes(bool torn) {
    const std::lock_guard guard(mutex_);
    torn_writes_ = torn;
  }

  bool torn_writes() const {
    const std::lock_guard guard(mutex_);
    return torn_writes_;
  }

  void set_hook(Hook hook) {
    const std::lock_guard guard(mutex_);
    hook_ = std::move(hook);
  }

  std::size_t operations() const {
    const std::lock_guard guard(mutex_);
    return log_.size();
  }

  std::size_t operations(std::string_view name) const {
    const std::lock_guard guard(mutex_);
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? 0 : found->second;
  }

  std::vector<std::string> log() const {
    const std::lock_guard guard(mutex_);
    return log_;
  }

 private:
  mutable std::mutex mutex_;
  bool armed_ = false;
  bool fired_ = false;
  bool torn_writes_ = false;
  std::size_t since_arm_ = 0;
  std::size_t nth_ = 0;
  Mode mode_ = Mode::once;
  std::string path_part_;
  Hook hook_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<std::string> log_;
};

class FaultyFileSystem::FaultyFile : public io::File {
 public:
  FaultyFile(std::unique_ptr<io::File> base, io::Path path, std::shared_ptr<Script> script)
      : base_(std::move(base)), path_(std::move(path)), script_(std::move(script)) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    script_->count("write", path_, {}, [&] {
      if (!script_->torn_writes()) return;
      const auto half = bytes.size() / 2;
      base_->write_at(offset, bytes.first(half - half % base_->alignment()));
    });
    base_->write_at(offset, bytes);
  }

  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    return base_->read_at(offset, bytes);
  }

  void allocate(std::uint64_t length) override {
    script_->count("allocate", path_);
    base_->allocate(length);
  }

  void truncate(std::uint64_t length) override {
    script_->count("truncate", path_);
    base_->truncate(length);
  }

  void sync() override {
    script_->count("sync", path_);
    base_->sync();
  }

  std::uint64_t length() const override { return base_->length(); }
  std::size_t alignment() const override { return base_->alignment(); }

 private:
  std::unique_ptr<io::File> base_;
  io::Path path_;
  std::shared_ptr<Script> script_;
};

FaultyFileSystem::FaultyFileSystem(std::shared_ptr<io::FileSystem> base)
    : base_(std::move(base)), script_(std::make_shared<Script>()) {}

void FaultyFileSystem::arm(std::size_t nth, Mode mode, std::string path_part) {
  script_->arm(nth, mode, std::move(path_part));
}
void FaultyFileSystem::disarm() { script_->disarm(); }
bool FaultyFileSystem::fired() const { return script_->fired(); }
void FaultyFileSystem::set_torn_writes(bool torn) { script_->set_torn_writes(torn); }
void FaultyFileSystem::set_hook(Hook hook) { script_->set_hook(std::move(hook)); }
std::size_t FaultyFileSystem::operations() const { return script_->operations(); }

std::size_t FaultyFileSystem::operations(std::string_view name) const {
  return script_->operations(name);
}

std::vector<std::string> FaultyFileSystem::log() const { return script_->log(); }

std::unique_ptr<io::File> FaultyFileSystem::open(const io::Path& path, io::OpenMode mode,
                                                 io::Caching caching) {
  if (mode == io::OpenMode::read) return base_->open(path, mode, caching);
  script_->count("open", path);
  return std::make_unique<FaultyFile>(base_->open(path, mode, caching), path, script_);
}

std::optional<io::FileStatus> FaultyFileSystem::status(const io::Path& path) {
  return base_->status(path);
}

std::vector<std::string> FaultyFileSystem::list(const io::Path& directory) {
  return base_->list(directory);
}

void FaultyFileSystem::create_directory(const io::Path& path) {
  script_->count("create_directory", path);
  base_->create_directory(path);
}

void FaultyFileSystem::rename(const io::Path& from, const io::Path& to) {
  script_->count("rename", from, " -> " + to.string());
  base_->rename(from, to);
}

void FaultyFileSystem::link(const io::Path& from, const io::Path& to) {
  script_->count("link", from, " -> " + to.string());
  base_->link(from, to);
}

void FaultyFileSystem::remove_file(const io::Path& path) {
  script_->count("remove_file", path);
  base_->remove_file(path);
}

void FaultyFileSystem::remove_directory(const io::Path& path) {
  script_->count("remove_directory", path);
  base_->remove_directory(path);
}

void FaultyFileSystem::sync_directory(const io::Path& path) {
  script_->count("sync_directory", path);
  base_->sync_directory(path);
}

std::uint64_t FaultyFileSystem::free_bytes(const io::Path& path) { return base_->free_bytes(path); }

std::unique_ptr<io::FileLock> FaultyFileSystem::lock(const io::Path& path) {
  return base_->lock(path);
}

}  // namespace gradstore::testing
