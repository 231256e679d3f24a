// A last snapshot before a scheduler ends the job.
#pragma once

#include <chrono>
#include <csignal>
#include <vector>

namespace gradstore {

/// Notes a signal that asks the process to end, so that the training loop can take one more
/// snapshot at a safe point of its own, within the time that the scheduler leaves:
///
///     const TerminationNotice notice(std::chrono::seconds(30));
///     for (...) {
///       ...
///       if (notice.requested()) {
///         const auto ticket = store->snapshot(gradients, metadata, state);
///         ticket.wait_for(notice.remaining());  // false: the disk was too slow
///         return;
///       }
///     }
///
/// Nothing else happens by itself: no signal handler of ours captures or writes. Returning from
/// main() waits for snapshots in flight as SnapshotStore::close() does; who must be gone in time
/// whatever the disk does calls std::_Exit(): a snapshot that was not committed by then is absent,
/// the earlier ones are whole.
///
/// The first signal is noted only. From the second on, of any of `signals`, each acts as it would
/// without this object: an impatient second Ctrl-C or SIGTERM ends the process. In a forked child
/// (a data loader's worker) already the first does.
class TerminationNotice {
 public:
  /// `grace`: time from the signal until the process must be gone. System calls that a signal
  /// interrupts are restarted.
  /// Errors: Error{already_exists} there is one in this process; {invalid_argument} a signal that
  /// cannot be handled, none at all, or a negative `grace`.
  explicit TerminationNotice(std::chrono::milliseconds grace, std::vector<int> signals = {SIGTERM});

  /// Puts the previous handlers back, where nobody else has set one since.
  ~TerminationNotice();
  TerminationNotice(const TerminationNotice&) = delete;
  TerminationNotice& operator=(const TerminationNotice&) = delete;

  /// Has a signal come? Cheap: one atomic load. Safe to call from any thread.
  bool requested() const noexcept;

  /// What is left of the grace time, never negative; all of it before a signal has come.
  std::chrono::milliseconds remaining() const noexcept;

 private:
  std::chrono::milliseconds grace_;
  std::vector<int> signals_;
};

}  // namespace gradstore
