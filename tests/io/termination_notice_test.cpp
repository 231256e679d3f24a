#include "gradstore/termination_notice.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "support/fails_with.h"
#include "support/second_process.h"

namespace gradstore {
namespace {

using std::chrono::milliseconds;
using testing::fails_with;

struct sigaction handler_of(int signal) {
  struct sigaction action = {};
  ::sigaction(signal, nullptr, &action);
  return action;
}

volatile sig_atomic_t heard = 0;
void hear(int) { heard = heard + 1; }

TEST(TerminationNoticeTest, NotesTheFirstSignalAndTheTimeSince) {
  const TerminationNotice notice(std::chrono::hours(1), {SIGTERM, SIGUSR1});
  EXPECT_FALSE(notice.requested());
  EXPECT_EQ(notice.remaining(), std::chrono::hours(1));
  errno = 42;
  ::raise(SIGUSR1);
  EXPECT_EQ(errno, 42);
  EXPECT_TRUE(notice.requested());
  while (notice.remaining() == std::chrono::hours(1)) {
  }
  EXPECT_GT(notice.remaining(), std::chrono::minutes(59));
}

TEST(TerminationNoticeTest, NothingRemainsAfterTheGraceTimeAndNeverLess) {
  const TerminationNotice notice(milliseconds(1));
  ::raise(SIGTERM);
  while (notice.remaining() > milliseconds(0)) {
  }
  EXPECT_EQ(notice.remaining(), milliseconds(0));
}

TEST(TerminationNoticeTest, TheSecondSignalGoesToThePreviousHandler) {
  struct sigaction before = {};
  before.sa_handler = &hear;
  ::sigaction(SIGUSR2, &before, nullptr);
  heard = 0;
  const TerminationNotice notice(milliseconds(1), {SIGUSR2});
  ::raise(SIGUSR2);
  EXPECT_EQ(heard, 0);
  ::raise(SIGUSR2);
  EXPECT_EQ(heard, 1);
  ::raise(SIGUSR2);
  EXPECT_EQ(heard, 2);
}

TEST(TerminationNoticeTest, TheSecondSignalEndsAProcessThatHandledItNotItself) {
  if (testing::role() == "impatient") {
    const TerminationNotice notice(std::chrono::hours(1), {SIGTERM, SIGINT});
    ::raise(SIGTERM);
    testing::tell(notice.requested() ? "noted" : "lost");
    ::raise(SIGINT);
    std::_Exit(0);
  }
  testing::SecondProcess process("impatient", {});
  EXPECT_EQ(process.read_line(), "noted");
  EXPECT_EQ(process.finish(), -SIGINT);
}

// A data loader's worker, ended by the SIGTERM that its parent sends once.
TEST(TerminationNoticeTest, AForkedChildEndsAtItsFirstSignal) {
  const TerminationNotice notice(std::chrono::hours(1));
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  EXPECT_FALSE(notice.requested());
}

TEST(TerminationNoticeTest, DestructionPutsThePreviousHandlersBackUnlessSomebodySetOthers) {
  struct sigaction before = {};
  before.sa_handler = &hear;
  ::sigaction(SIGUSR1, &before, nullptr);
  ::sigaction(SIGUSR2, &before, nullptr);
  {
    const TerminationNotice notice(milliseconds(1), {SIGUSR1, SIGUSR2});
    EXPECT_NE(handler_of(SIGUSR1).sa_handler, &hear);
    ::signal(SIGUSR2, SIG_IGN);
  }
  EXPECT_EQ(handler_of(SIGUSR1).sa_handler, &hear);
  EXPECT_EQ(handler_of(SIGUSR2).sa_handler, SIG_IGN);
}

TEST(TerminationNoticeTest, ThereIsOneAtATime) {
  {
    const TerminationNotice first(milliseconds(1));
    ::raise(SIGTERM);
    EXPECT_THAT([] { TerminationNotice(milliseconds(1), {SIGUSR1}); },
                fails_with(ErrorCode::already_exists, "one in this process already"));
    EXPECT_TRUE(first.requested());
  }
  const TerminationNotice next(milliseconds(1));
  EXPECT_FALSE(next.requested()) << "what the first one noted is not the next one's";
}

TEST(TerminationNoticeTest, WhatCannotBeHandledIsRefusedAndChangesNothing) {
  const auto before = handler_of(SIGUSR1).sa_handler;
  for (const int signal : {SIGKILL, SIGSTOP, 0, -1, 4711}) {
    EXPECT_THAT(
        [&] {
          TerminationNotice(milliseconds(1), {SIGUSR1, signal});
        },
        fails_with(ErrorCode::invalid_argument, "signal " + std::to_string(signal)));
    EXPECT_EQ(handler_of(SIGUSR1).sa_handler, before);
  }
  EXPECT_THAT([] { TerminationNotice(milliseconds(1), {}); },
              fails_with(ErrorCode::invalid_argument, "no signal"));
  EXPECT_THAT([] { TerminationNotice(milliseconds(-1)); },
              fails_with(ErrorCode::invalid_argument, "negative"));
  EXPECT_NO_THROW(TerminationNotice(milliseconds(0), {SIGUSR1, SIGUSR1}));
}

}  // namespace
}  // namespace gradstore
