// A file system that fails where a test wants it to.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace gradstore::testing {

/// Passes everything on to another file system and numbers the operations that change or sync
/// something: open (to write), write, allocate, truncate, sync, rename, link, remove_file,
/// remove_directory, create_directory, sync_directory. Reading, listing and lock() are not counted.
/// All members, and those of its files, are safe to call concurrently; files may outlive it.
class FaultyFileSystem : public io::FileSystem {
 public:
  enum class Mode {
    once,    ///< Operation number n fails, later ones pass.
    sticky,  ///< Operation number n and all later ones fail.
  };
  /// Called before each counted operation, with its name and (first) path; may not return.
  using Hook = std::function<void(std::string_view operation, const io::Path& path)>;

  explicit FaultyFileSystem(std::shared_ptr<io::FileSystem> base = io::posix_file_system());

  /// Makes the `nth` counted operation from now on (1: the next) throw Error{io, "injected failure
  /// at operation <nth>: <operation> <path>"} without doing it. Replaces an earlier arm(). Counts
  /// only operations whose (first) path contains `path_part`: RocksDB's background threads make
  /// their own calls whenever they like.
  void arm(std::size_t nth, Mode mode = Mode::once, std::string path_part = {});
  void disarm();
  bool fired() const;  ///< Whether a failure was injected since the last arm().

  void set_torn_writes(bool torn);  ///< Whether a failing write leaves its first half in the file.
  void set_hook(Hook hook);

  std::size_t operations() const;                       ///< Counted so far, over all arm()s.
  std::size_t operations(std::string_view name) const;  ///< Those of one name, e.g. "sync".
  /// One line for each counted operation, in order: "sync <path>", "rename <from> -> <to>"; those
  /// that were made to fail end in " (failed)".
  std::vector<std::string> log() const;

  std::unique_ptr<io::File> open(const io::Path& path, io::OpenMode mode,
                                 io::Caching caching = io::Caching::buffered) override;
  std::optional<io::FileStatus> status(const io::Path& path) override;
  std::vector<std::string> list(const io::Path& directory) override;
  void create_directory(const io::Path& path) override;
  void rename(const io::Path& from, const io::Path& to) override;
  void link(const io::Path& from, const io::Path& to) override;
  void remove_file(const io::Path& path) override;
  void remove_directory(const io::Path& path) override;
  void sync_directory(const io::Path& path) override;
  std::uint64_t free_bytes(const io::Path& path) override;
  std::unique_ptr<io::FileLock> lock(const io::Path& path) override;

 private:
  class Script;
  class FaultyFile;

  std::shared_ptr<io::FileSystem> base_;
  std::shared_ptr<Script> script_;
};

}  // namespace gradstore::testing
