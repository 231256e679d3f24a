// Hands captured blocks from the training thread to the writer, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "io/block_pool.h"

namespace gradstore::archive {

/// One producer, one consumer. The consumer sees nothing until the producer opens the gate: while
/// all of a snapshot fits the staging memory, writing it must not compete with copying it.
class BlockQueue {
 public:
  // The producer's side.
  void push(io::Block block) {
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return;  // dropped: goes back to the pool
      blocks_.push_back(std::move(block));
    }
    changed_.notify_all();
  }
  void open_gate() { set(open_); }
  /// All blocks are in. Opens the gate.
  void finish() { set(finished_); }
  /// The capture failed: what was pushed means nothing. Opens the gate.
  void abandon() { set(abandoned_); }

  // The consumer's side.
  /// The next block; nothing when all were taken, or when the capture was abandoned.
  std::optional<io::Block> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return abandoned_ || finished_ || (open_ && !blocks_.empty()); });
    if (abandoned_ || blocks_.empty()) return std::nullopt;
    auto block = std::move(blocks_.front());
    blocks_.pop_front();
    return block;
  }
  /// The write failed: drops what is there and what will come.
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    blocks_.clear();
  }
  bool abandoned() const {
    const std::lock_guard lock(mutex_);
    return abandoned_;
  }

 private:
  void set(bool& flag) {
    {
      const std::lock_guard lock(mutex_);
      flag = true;
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<io::Block> blocks_;
  bool open_ = false;
  bool finished_ = false;
  bool abandoned_ = false;
  bool cancelled_ = false;
};

}  // namespace gradstore::archive
