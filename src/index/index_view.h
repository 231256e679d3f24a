// A read-only view of an index that another process may be writing: takes no lock, writes nothing,
// works on read-only media.
#pragma once

#include <memory>

#include "index/index.h"

namespace gradstore::index {

class IndexView : public IndexReader {
 public:
  /// Retries while the writer is changing files under it; a race is never called corrupt.
  /// Errors: {not_found} no index there, or none that is whole yet; {corrupt}; {incompatible};
  /// {io};
  ///         {busy} the writer changes it faster than it can be looked at.
  static std::unique_ptr<IndexView> open(
      const io::Path& directory, std::shared_ptr<io::FileSystem> files = io::posix_file_system());
  /// Takes in what the writer has committed since; until then answers do not change.
  /// Errors: as open(), the view staying as it was. Cost: as open(), ~10 ms.
  void catch_up();

 private:
  using IndexReader::IndexReader;
};

}  // namespace gradstore::index
