#include "torch/close_at_exit.h"

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "io/process.h"

namespace gradstore {

struct OpenAtExit {
  const std::int64_t pid = io::process_id();
  std::mutex mutex;  // Held while closing: destruction on another thread waits for that.
  std::set<CloseAtExit*> all;

  // Never destroyed: the handler may run after any static object of ours.
  static OpenAtExit& instance() {
    static auto* const open = [] {
      auto* const made = new OpenAtExit;
      std::atexit([] { instance().close_all(); });
      return made;
    }();
    return *open;
  }

  void close_all() {
    // In a forked child the mutex may be held by a thread that is not there.
    if (io::process_id() != pid) return;
    const std::lock_guard lock(mutex);
    for (auto* const entry : all) {
      try {
        entry->close_();
      } catch (...) {
        // Nobody is left to be told: who must know calls close().
      }
    }
  }
};

CloseAtExit::CloseAtExit(std::function<void()> close) : close_(std::move(close)) {
  auto& open = OpenAtExit::instance();
  const std::lock_guard lock(open.mutex);
  open.all.insert(this);
}

CloseAtExit::~CloseAtExit() {
  auto& open = OpenAtExit::instance();
  const std::lock_guard lock(open.mutex);
  open.all.erase(this);
}

}  // namespace gradstore
