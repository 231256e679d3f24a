// A live read-only view of an index that another process may be writing (a RocksDB secondary
// instance): takes no lock, writes nothing, works on read-only media.
#pragma once

#include <memory>

#include "index/index.h"

namespace gradstore::index {

class IndexView : public IndexReader {
 public:
  /// Retries while the writer is changing files under it; a race is never called corrupt.
  /// Errors: {not_found} no index there; {corrupt}; {incompatible}; {io}.
  static std::unique_ptr<IndexView> open(const io::Path& directory);
  /// Takes in what the writer has committed since.
  void catch_up();

 private:
  using IndexReader::IndexReader;
};

}  // namespace gradstore::index
