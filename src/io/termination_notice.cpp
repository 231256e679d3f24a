#include "gradstore/termination_notice.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "gradstore/error.h"

namespace gradstore {

namespace {

// What the handler may touch: constants and lock-free atomics, all set before it is installed.
struct Handling {
  std::atomic<bool> in_use = false;
  std::atomic<pid_t> pid = 0;
  std::atomic<std::int64_t> noted_ns = 0;  // of the steady clock; 0 before the first signal
  std::array<struct sigaction, NSIG> previous{};
};

constinit Handling handling;  // Trivially destructible: a handler may run until the very end.

static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<pid_t>::is_always_lock_free);

// std::chrono::steady_clock is this clock, but only clock_gettime() is known to be safe here.
std::int64_t steady_now_ns() noexcept {
  struct timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note(int signal) {
  const int saved_errno = errno;
  std::int64_t none = 0;
  const bool ours = handling.pid == ::getpid();
  if (!ours || !handling.noted_ns.compare_exchange_strong(none, steady_now_ns())) {
    // As without us: whoever handled it before handles it, as soon as this handler returns.
    ::sigaction(signal, &handling.previous[static_cast<std::size_t>(signal)], nullptr);
    ::raise(signal);
  }
  errno = saved_errno;
}

// Where somebody has set a handler after us, theirs stays.
void put_back(int signal) noexcept {
  struct sigaction current = {};
  if (::sigaction(signal, nullptr, &current) == -1 || current.sa_handler != &note) return;
  ::sigaction(signal, &handling.previous[static_cast<std::size_t>(signal)], nullptr);
}

void install(int signal) {
  struct sigaction action = {};
  action.sa_handler = &note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  auto& previous = handling.previous;
  // Asked for first: from the moment it is installed the handler may need what was there before.
  if (signal <= 0 || signal >= NSIG ||
      ::sigaction(signal, nullptr, &previous[static_cast<std::size_t>(signal)]) == -1 ||
      ::sigaction(signal, &action, nullptr) == -1) {
    throw Error(ErrorCode::invalid_argument,
                "TerminationNotice: signal " + std::to_string(signal) + " cannot be handled");
  }
}

}  // namespace

TerminationNotice::TerminationNotice(std::chrono::milliseconds grace, std::vector<int> signals)
    : grace_(grace), signals_(std::move(signals)) {
  if (grace_.count() < 0) {
    throw Error(ErrorCode::invalid_argument, "TerminationNotice: the grace time is negative (" +
                                                 std::to_string(grace_.count()) + " ms)");
  }
  if (signals_.empty()) {
    throw Error(ErrorCode::invalid_argument, "TerminationNotice: no signal was given");
  }
  // Handling one twice would make us our own previous handler.
  std::ranges::sort(signals_);
  signals_.erase(std::ranges::unique(signals_).begin(), signals_.end());

  if (handling.in_use.exchange(true)) {
    throw Error(ErrorCode::already_exists,
                "TerminationNotice: there is one in this process already; use that one");
  }
  handling.noted_ns = 0;
  handling.pid = ::getpid();
  for (auto signal = signals_.begin(); signal != signals_.end(); ++signal) {
    try {
      install(*signal);
    } catch (...) {
      std::for_each(signals_.begin(), signal, put_back);
      handling.in_use = false;
      throw;
    }
  }
}

TerminationNotice::~TerminationNotice() {
  std::ranges::for_each(signals_, put_back);
  handling.in_use = false;
}

bool TerminationNotice::requested() const noexcept { return handling.noted_ns != 0; }

std::chrono::milliseconds TerminationNotice::remaining() const noexcept {
  const auto noted = handling.noted_ns.load();
  if (noted == 0) return grace_;
  const std::chrono::nanoseconds passed(steady_now_ns() - noted);
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::duration_cast<std::chrono::milliseconds>(grace_ - passed));
}

}  // namespace gradstore
