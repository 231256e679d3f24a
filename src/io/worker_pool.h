// A few threads that run what they are given: writes in flight.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gradstore::io {

class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool();  ///< Runs what was submitted, then joins.
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// `task` must not throw. Tasks start in the order in which they were submitted.
  void submit(std::function<void()> task);

 private:
  void run();
  void stop();

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gradstore::io
