#include "index/index_view.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "gradstore/error.h"
#include "index/index_impl.h"

// Looking while another process writes.
//
// Opening to read lists the files it needs and then opens them one by one; the writer may flush,
// compact or start a new manifest in between. Two things can go wrong; both show in the directory.
//
//   - It fails, because a file vanished or was half written. If the directory has changed since,
//     that proves nothing and we try again. If it has not, the failure is real.
//   - It succeeds, but without what moved from a log to a table file after it read the manifest and
//     before it listed the logs. If files came or went, we try again.
//
// Not a RocksDB secondary instance: once the writer has flushed, that goes on answering from its
// own memory with values that were overwritten or removed since, and it takes missing table files
// for an earlier state of the index (7.8.3; IndexViewTest has a case of each).

namespace gradstore::index {

namespace {

constexpr int kMaxTries = 100;  // Against a writer that outpaces us for ever; one try takes ~10 ms.

// Names and lengths. Files that vanish between listing and looking have no length.
using Listing = std::map<std::string, std::uint64_t>;

Listing look(io::FileSystem& files, const io::Path& directory) {
  Listing listing;
  if (!files.status(directory)) return listing;
  for (const auto& name : files.list(directory)) {
    const auto status = files.status(directory / name);
    listing[name] = status ? status->length : 0;
  }
  return listing;
}

bool same_names(const Listing& a, const Listing& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](auto& x, auto& y) { return x.first == y.first; });
}

bool may_be_a_race(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
    case ErrorCode::corrupt:
    case ErrorCode::io: return true;
    case ErrorCode::invalid_argument:
    case ErrorCode::already_exists:
    case ErrorCode::incompatible:
    case ErrorCode::busy:
    case ErrorCode::internal: return false;
  }
  return false;
}

}  // namespace

std::unique_ptr<IndexView> IndexView::open(const io::Path& directory,
                                           std::shared_ptr<io::FileSystem> files) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->files = std::move(files);
  std::unique_ptr<IndexView> view(new IndexView(std::move(impl)));
  view->catch_up();
  return view;
}

void IndexView::catch_up() {
  const std::lock_guard guard(impl_->writing);
  for (int tries = 1;; ++tries) {
    const auto before = look(*impl_->files, impl_->directory);
    try {
      auto fresh = Database::open_view(impl_->files, impl_->directory);
      if (same_names(before, look(*impl_->files, impl_->directory))) {
        const std::unique_lock lock(impl_->mutex);
        impl_->database = std::move(fresh);
        return;
      }
    } catch (const Error& error) {
      const bool settled = before == look(*impl_->files, impl_->directory);
      if (settled || !may_be_a_race(error.code())) throw;
    }
    if (tries == kMaxTries) {
      throw Error(ErrorCode::busy, "The index " + impl_->directory.string() +
                                       " changes faster than it can be looked at");
    }
  }
}

}  // namespace gradstore::index
