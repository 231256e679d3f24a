// The background thread that writes snapshots one after the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "archive/rank_archive.h"
#include "gradstore/error.h"

namespace gradstore::archive {

class AsyncWriter {
 public:
  using OnError = std::function<void(const SnapshotId&, const Error&)>;

  /// With `on_error`, failures are told to it as they happen, and tell_failure() has none to tell.
  AsyncWriter(RankArchive& archive, OnError on_error);
  ~AsyncWriter();  ///< Finishes what was submitted.
  AsyncWriter(const AsyncWriter&) = delete;
  AsyncWriter& operator=(const AsyncWriter&) = delete;

  /// Snapshots are committed in the order in which they were submitted.
  void submit(std::shared_ptr<SnapshotJob> job);

  /// Throws the failure of an earlier snapshot that nobody was told of, if there is one.
  void tell_failure();

  /// Logs a failure and tells `on_error`, if there is one, on this thread. What `on_error` throws
  /// is logged: there is nobody here to catch it, and it must not end the process.
  void report(const SnapshotId& id, const Error& error) noexcept;

  /// Waits for all, and stops. Idempotent.
  void close();

 private:
  void run();
  void keep_failure(const std::shared_ptr<SnapshotJob>& job, std::exception_ptr failure);

  RankArchive& archive_;
  OnError on_error_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<SnapshotJob>> jobs_;
  std::shared_ptr<SnapshotJob> last_failed_;  // one is enough to tell: memory stays flat for hours
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace gradstore::archive
