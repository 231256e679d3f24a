// What Index and IndexView have in common inside.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "index/database.h"
#include "index/index.h"

namespace gradstore::index {

struct IndexReader::Impl {
  /// The database, kept from being replaced or closed while in use.
  struct Use {
    std::shared_lock<std::shared_mutex> lock;
    Database& database;
    Database* operator->() const { return &database; }
  };

  /// Opens the database again where the last reopening failed: the disk may be well by now.
  /// Errors: Error{invalid_argument} closed; those of Database::open().
  Use use();
  /// The same, for who holds `writing`: the database is replaced only under both locks.
  Database& database_for_writing();
  Database& open_again();

  io::Path directory;
  std::shared_ptr<io::FileSystem> files;
  std::shared_mutex mutex;             // Held shared to read from `database`.
  std::unique_ptr<Database> database;  // Nothing when closed, or lost by a failed reopening.
  bool closed = false;                 // By close().
  std::mutex writing;                  // One writer at a time, since it reads before it writes.
  std::set<Digest128> known_layouts;   // In the database for sure.
};

}  // namespace gradstore::index
