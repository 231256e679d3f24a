// The index's RocksDB: options, column families, errors. All that the rest of the layer sees of it.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"

namespace gradstore::index {

/// Column families, in the order of their handles. Keys and values: schemas/FORMAT.md, "Index".
enum class Family : std::size_t { meta, layouts, snapshots, steps, pages, pins };
inline constexpr std::size_t kNumFamilies = 6;

inline constexpr const char* kHighWaterKey = "high_water";

/// Throws what `status` means: {busy}, {corrupt}, {incompatible}, {io}, {internal}.
void check(const rocksdb::Status& status, const std::string& what);

class Database {
 public:
  static bool exists(io::FileSystem& files, const io::Path& directory);

  /// Opens to write, or makes one. Errors: {busy}, {corrupt}, {incompatible}, {io}.
  static std::unique_ptr<Database> open(std::shared_ptr<io::FileSystem> files,
                                        const io::Path& directory);
  /// What the index holds now, for ever; beside a writer, too. A file that vanishes while opening
  /// is an error, but may also be overlooked: see index_view.cpp. Errors: {not_found} none there,
  /// or none that is whole yet; {corrupt}, {incompatible}, {io}.
  static std::unique_ptr<Database> open_view(std::shared_ptr<io::FileSystem> files,
                                             const io::Path& directory);

  std::optional<std::string> get(Family family, std::string_view key) const;
  /// All entries whose key starts with `prefix`, ascending, until `visit` returns false.
  void scan(Family family, std::string_view prefix,
            const std::function<bool(std::string_view key, std::string_view value)>& visit) const;
  /// All entries, descending.
  void scan_backward(
      Family family,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) const;

  void put(rocksdb::WriteBatch& batch, Family family, std::string_view key, std::string_view value);
  void remove(rocksdb::WriteBatch& batch, Family family, std::string_view key);
  /// All of the batch or nothing, durably. `what` is for the message: "Putting snapshot
  /// 0001-00000002".
  void write(rocksdb::WriteBatch& batch, const std::string& what);

  void flush();  ///< To table files, so that the next open replays no log.

  /// "<what> in the index <directory>", for messages.
  std::string in_index(const std::string& what) const;

 private:
  explicit Database(const io::Path& directory) : directory_(directory) {}
  rocksdb::ColumnFamilyHandle* handle(Family family) const;
  template <class Open>
  rocksdb::Status fill(Open open);
  bool has_version() const;  ///< Errors: Error{incompatible} it is newer.
  void require_version();

  io::Path directory_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> database_;  // Before the handles, which die first.
  std::array<std::unique_ptr<rocksdb::ColumnFamilyHandle>, kNumFamilies> handles_;
};

}  // namespace gradstore::index
