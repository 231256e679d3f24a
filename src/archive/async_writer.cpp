#include "archive/async_writer.h"

#include "core/log.h"

namespace gradstore::archive {

AsyncWriter::AsyncWriter(RankArchive& archive, OnError on_error)
    : archive_(archive), on_error_(std::move(on_error)), thread_([this] { run(); }) {}

AsyncWriter::~AsyncWriter() { close(); }

void AsyncWriter::submit(std::shared_ptr<SnapshotJob> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  work_.notify_one();
}

void AsyncWriter::tell_failure() {
  std::shared_ptr<SnapshotJob> failed;
  {
    const std::lock_guard lock(mutex_);
    failed = std::exchange(last_failed_, nullptr);
  }
  if (!failed) return;
  if (const auto failure = failed->take_untold()) std::rethrow_exception(failure);
}

void AsyncWriter::report(const SnapshotId& id, const Error& error) noexcept {
  std::string thrown;
  try {
    log::error("snapshot failed", {{"snapshot", to_string(id)}, {"error", error.what()}});
    if (on_error_) on_error_(id, error);
    return;
  } catch (const std::exception& from_callback) {
    thrown = from_callback.what();
  } catch (...) {
    thrown = "something that is no std::exception";
  }
  try {
    log::error("on_error threw", {{"snapshot", to_string(id)}, {"error", thrown}});
  } catch (...) {
    // The application's log sink throws as well: there is nothing left to tell.
  }
}

void AsyncWriter::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // on_error has called exit(): this thread ends with the process.
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

void AsyncWriter::run() {
  for (;;) {
    std::shared_ptr<SnapshotJob> job;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      archive_.write(*job);
      job->complete(nullptr);
    } catch (...) {
      keep_failure(job, std::current_exception());
    }
  }
}

void AsyncWriter::keep_failure(const std::shared_ptr<SnapshotJob>& job,
                               std::exception_ptr failure) {
  // An abandoned capture was told by snapshot() itself.
  const bool told =
      job->gradients.blocks.abandoned() || (job->state && job->state->blocks.abandoned());
  if (!told) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      report(job->manifest.id, error);
    } catch (...) {
      // write() throws nothing else.
    }
  }
  job->complete(std::move(failure));
  if (told || on_error_) return;
  // After complete(): what tell_failure() finds here must have its failure.
  const std::lock_guard lock(mutex_);
  last_failed_ = job;
}

}  // namespace gradstore::archive
