// Closes what is still open when the process exits.
#pragma once

#include <functional>

namespace gradstore {

/// Calls `close` when the process exits, unless it was destroyed before. That is early enough:
/// before the destruction of RocksDB's static objects, without which an index can neither be
/// flushed nor closed, while a store in a static object of the application would be destroyed after
/// them. In a forked child nothing is called.
class CloseAtExit {
 public:
  /// Make it when a database has been opened; `close` may throw.
  explicit CloseAtExit(std::function<void()> close);
  ~CloseAtExit();
  CloseAtExit(const CloseAtExit&) = delete;
  CloseAtExit& operator=(const CloseAtExit&) = delete;

 private:
  friend struct OpenAtExit;
  std::function<void()> close_;
};

}  // namespace gradstore
