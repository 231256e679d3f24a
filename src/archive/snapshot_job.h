// One snapshot on its way from the training thread to the disk.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "archive/block_queue.h"
#include "archive/file_plan.h"
#include "archive/manifest.h"

namespace gradstore::archive {

/// One file of it: the plan is made on the training thread, the blocks follow.
struct FileJob {
  std::shared_ptr<const FilePlan> plan;
  std::string manifest;  ///< Encoded, unpadded.
  BlockQueue blocks;

  /// 0 for a file that was never planned.
  std::uint64_t file_bytes() const { return plan ? plan->placement().file_length : 0; }
};

class SnapshotJob {
 public:
  explicit SnapshotJob(Manifest manifest_in) : manifest(std::move(manifest_in)) {}

  // Set before it is submitted, constant afterwards.
  const Manifest manifest;
  FileJob gradients;
  std::unique_ptr<FileJob> state;  ///< Null without companion state.

  std::atomic<std::uint64_t> bytes_written = 0;
  std::uint64_t bytes_total() const {
    return gradients.file_bytes() + (state ? state->file_bytes() : 0);
  }

  /// Committed (`failure` is null) or failed. Called once: by the writer, or by who could not
  /// submit it.
  void complete(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::move(failure);
      done_ = true;
    }
    changed_.notify_all();
  }

  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  /// False when it is still being written at `deadline`; throws what the writer failed with.
  bool wait_until(std::optional<std::chrono::steady_clock::time_point> deadline) {
    std::unique_lock lock(mutex_);
    const auto is_done = [this] { return done_; };
    if (!deadline) {
      changed_.wait(lock, is_done);
    } else if (!changed_.wait_until(lock, *deadline, is_done)) {
      return false;
    }
    if (!failure_) return true;
    told_ = true;
    std::rethrow_exception(failure_);
  }

  /// The failure, if nobody has been told of it; from now on somebody has.
  std::exception_ptr take_untold() {
    const std::lock_guard lock(mutex_);
    if (told_ || !failure_) return nullptr;
    told_ = true;
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  bool told_ = false;
  std::exception_ptr failure_;
};

}  // namespace gradstore::archive
