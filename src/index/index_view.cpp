#include "index/index_view.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "gradstore/error.h"
#include "index/index_impl.h"

// Looking while another process writes.
//
// A view lists the files it needs and then opens them one by one; the writer may flush, compact or
// start a new manifest in between. Two things can go wrong, and both show in the directory:
//
//   - Opening fails, because a file vanished or was half written. If the directory has changed
//     since, that proves nothing and we try again. If it has not, the failure is real.
//   - Opening succeeds, but without a log that the writer had flushed and removed by then: RocksDB
//     takes a vanished log for an old one. If names came or went, we catch up until none do.

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
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return x.first == y.first;
         });
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

// Repeats `attempt` until it succeeds while no file comes or goes.
void until_undisturbed(io::FileSystem& files, const io::Path& directory,
                       const std::function<void()>& attempt) {
  for (int tries = 1;; ++tries) {
    const auto before = look(files, directory);
    try {
      attempt();
      if (same_names(before, look(files, directory)) || tries == kMaxTries) return;
    } catch (const Error& error) {
      const bool settled = before == look(files, directory);
      if (settled || tries == kMaxTries || !may_be_a_race(error.code())) throw;
    }
  }
}

}  // namespace

std::unique_ptr<IndexView> IndexView::open(const io::Path& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->files = io::posix_file_system();
  std::unique_ptr<IndexView> view(new IndexView(std::move(impl)));
  view->catch_up();
  return view;
}

void IndexView::catch_up() {
  const std::lock_guard guard(impl_->writing);
  until_undisturbed(*impl_->files, impl_->directory, [&] {
    if (impl_->database) {
      try {
        impl_->database->catch_up();
        return;
      } catch (const Error&) {
        // RocksDB keeps a failure of its log reader for ever. Open afresh, and tell what that says.
      }
    }
    auto fresh = Database::open_view(impl_->files, impl_->directory);
    const std::unique_lock lock(impl_->mutex);
    impl_->database = std::move(fresh);
  });
}

}  // namespace gradstore::index
