// RocksDB's files, over our own seam: a disk that fails or is simulated holds the index as well.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>

#include "io/file_system.h"

namespace gradstore::index {

enum class Access {
  read_write,
  read_only,  ///< Everything that would change the disk is refused, whatever RocksDB has in mind.
};

/// Errors become IOStatus, text included; nothing is thrown through RocksDB.
std::shared_ptr<rocksdb::FileSystem> rocksdb_file_system(std::shared_ptr<io::FileSystem> files,
                                                         Access access);

}  // namespace gradstore::index
