// Processes that end, fork and die with a store open.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gradstore/snapshot_store.h"
#include "sample_gradients.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/second_process.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::FaultyFileSystem;
using testing::given_directory;
using testing::role;
using testing::SampleGradients;
using testing::SecondProcess;
using testing::tell;

class EndOfProcessTest : public ::testing::Test {
 protected:
  // Snapshots of an open store: `waited` of them acknowledged, one more on its way.
  static void take_snapshots(SnapshotStore& store, int waited) {
    const SampleGradients sample(1);
    for (int i = 0; i <= waited; ++i) {
      const auto ticket = store.snapshot(sample.gradients, {}, sample.state(1));
      if (i < waited) ticket.wait();
    }
  }
  void expect_whole(std::size_t at_least) {
    const auto store = SnapshotStore::open(dir_ / "store");
    EXPECT_GE(store->list().size(), at_least);
    for (const auto& info : store->list()) EXPECT_TRUE(sample_.whole(*store, info.id, 1));
  }

  testing::TempDir dir_;
  SampleGradients sample_;
};

std::unique_ptr<SnapshotStore> static_store;  // NOLINT: what the test is about

TEST_F(EndOfProcessTest, ExitWithAStaticStoreFinishesWhatIsInFlight) {
  if (role() == "writer") {
    static_store = SnapshotStore::open(given_directory() / "store");
    take_snapshots(*static_store, 2);
    std::exit(0);
  }
  for (int round = 0; round < 5; ++round) {
    SecondProcess writer("writer", dir_.path());
    EXPECT_EQ(writer.finish(), 0);
    expect_whole(3u * static_cast<unsigned>(round + 1));
  }
}

TEST_F(EndOfProcessTest, ExitWithALeakedStoreLosesNothingAcknowledged) {
  if (role() == "writer") {
    auto* const leaked = SnapshotStore::open(given_directory() / "store").release();
    take_snapshots(*leaked, 2);
    std::exit(0);
  }
  for (int round = 0; round < 5; ++round) {
    SecondProcess writer("writer", dir_.path());
    EXPECT_EQ(writer.finish(), 0);
    expect_whole(2u * static_cast<unsigned>(round + 1));
  }
}

TEST_F(EndOfProcessTest, AnOnErrorThatCallsExitEndsTheProcessAsItSays) {
  if (role() == "writer") {
    const auto files = std::make_shared<FaultyFileSystem>();
    static_store = SnapshotStore::open(
        given_directory() / "store",
        {.on_error = [](const SnapshotId&, const Error&) { std::exit(3); }, .file_system = files});
    take_snapshots(*static_store, 1);
    files->arm(1);
    take_snapshots(*static_store, 1);
    for (;;) ::pause();
  }
  SecondProcess writer("writer", dir_.path());
  EXPECT_EQ(writer.finish(), 3);
  expect_whole(1);
}

TEST_F(EndOfProcessTest, CloseFinishesWhatIsInFlightAndADroppedTicketChangesNothing) {
  const auto store = SnapshotStore::open(dir_ / "store");
  for (std::uint64_t step = 0; step < 10; ++step)
    store->snapshot(SampleGradients(1).gradients, {.step = step});
  store->close();
  expect_whole(10);
}

TEST_F(EndOfProcessTest, ASnapshotBesideCloseIsWholeOrRefused) {
  for (int round = 0; round < 10; ++round) {
    const auto directory = dir_ / std::to_string(round);
    const auto store = SnapshotStore::open(directory);
    std::atomic<std::uint64_t> taken = 0;
    std::thread training([&] {
      const SampleGradients sample(1);
      try {
        for (;; ++taken) store->snapshot(sample.gradients, {});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      }
    });
    while (taken < 3) std::this_thread::yield();
    store->close();
    training.join();
    const auto again = SnapshotStore::open(directory);
    EXPECT_EQ(again->list().size(), taken);
    for (const auto& info : again->list()) EXPECT_TRUE(sample_.whole(*again, info.id, 1));
  }
}

TEST_F(EndOfProcessTest, ALockEndsWithItsProcessAndNotWithItsOrphans) {
  if (role() == "writer") {
    const auto store = SnapshotStore::open(given_directory() / "store");
    take_snapshots(*store, 1);
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      for (;;) ::pause();
    }
    tell(std::to_string(orphan));
    std::raise(SIGKILL);
  }
  SecondProcess writer("writer", dir_.path());
  const pid_t orphan = std::stoi(writer.read_line());
  EXPECT_EQ(writer.finish(), -SIGKILL);
  EXPECT_EQ(::kill(orphan, 0), 0) << "the orphan has ended too early to show anything";
  expect_whole(1);
  ::kill(orphan, SIGKILL);
}

TEST_F(EndOfProcessTest, ASecondWriterIsToldWhoHoldsTheRank) {
  if (role() == "writer") {
    const auto store = SnapshotStore::open(given_directory() / "store");
    tell("open");
    for (;;) ::pause();
  }
  SecondProcess writer("writer", dir_.path());
  EXPECT_EQ(writer.read_line(), "open");
  EXPECT_THAT([&] { SnapshotStore::open(dir_ / "store"); },
              fails_with(ErrorCode::busy, "process " + std::to_string(writer.pid())));
  writer.signal(SIGKILL);
  writer.finish();
  EXPECT_NO_THROW(SnapshotStore::open(dir_ / "store"));
}

// In a forked child. Its checks are its exit status.
class ForkTest : public ::testing::Test {
 protected:
  static int in_a_child(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // Instead of hanging for ever, which is what is feared.
      body();
      std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Name, length and time of change of every file and folder.
  std::vector<std::string> look() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      all.push_back(
          entry.path().string() + " " +
          (entry.is_directory() ? "" : std::to_string(std::filesystem::file_size(entry))) + " " +
          std::to_string(std::filesystem::last_write_time(entry).time_since_epoch().count()));
    }
    std::ranges::sort(all);
    return all;
  }

  testing::TempDir dir_;
  SampleGradients sample_{1};
};

auto refuses_in_child() { return fails_with(ErrorCode::invalid_argument, "before a fork"); }

TEST_F(ForkTest, AChildCanDoNothingToTheStoreAndTheParentGoesOn) {
  auto store = SnapshotStore::open(dir_ / "store");
  std::optional<Ticket> ticket = store->snapshot(sample_.gradients, {.step = 1}, sample_.state(1));
  ticket->wait();
  const auto before = look();
  static_store = std::move(store);
  EXPECT_EQ(in_a_child([&] {
              auto& inherited = *static_store;
              const auto id = ticket->id();
              SampleGradients target;
              EXPECT_THAT([&] { inherited.snapshot(target.gradients, {}); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.snapshot(target.gradients, {}, target.state(1)); },
                          refuses_in_child());
              EXPECT_THAT([&] { inherited.list(); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.latest(); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.latest_good(); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.find(1, 0, Stage::post_reduce); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.restore(id, target.gradients); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.read_state(id); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.read(id, "weight"); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.pin(id); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.unpin(id); }, refuses_in_child());
              EXPECT_THAT([&] { inherited.close(); }, refuses_in_child());
              EXPECT_THAT([&] { ticket->wait(); }, refuses_in_child());
              EXPECT_THAT([&] { ticket->wait_for(std::chrono::hours(1)); }, refuses_in_child());
              EXPECT_THAT([&] { ticket->done(); }, refuses_in_child());
              EXPECT_EQ(ticket->bytes_written(), ticket->bytes_total());
              ticket.reset();
            }),  // then exit(), which destroys the static store
            0);
  EXPECT_EQ(look(), before);
  EXPECT_THAT([&] { SnapshotStore::open(dir_ / "store"); }, fails_with(ErrorCode::busy));
  store = std::move(static_store);
  const auto next = store->snapshot(sample_.gradients, {.step = 2});
  next.wait();
  store->close();
  store = SnapshotStore::open(dir_ / "store");
  EXPECT_TRUE(sample_.whole(*store, next.id(), 1));
}

TEST_F(ForkTest, AChildForkedWhileASnapshotIsInFlightChangesNothing) {
  const auto files = std::make_shared<FaultyFileSystem>();
  std::mutex gate;
  files->set_hook([&](std::string_view operation, const io::Path& path) {
    if (operation == "write" && path.extension() == ".tmp") const std::lock_guard wait(gate);
  });
  auto store = SnapshotStore::open(dir_ / "store", {.file_system = files});
  std::optional<Ticket> ticket;
  {
    const std::lock_guard hold(gate);
    ticket = store->snapshot(sample_.gradients, {.step = 1});
    std::thread waiting([copy = *ticket] { copy.wait(); });
    while (files->operations("write") < 1) std::this_thread::yield();
    EXPECT_EQ(in_a_child([&] {
                EXPECT_THAT([&] { ticket->wait(); }, refuses_in_child());
                EXPECT_THAT([&] { ticket->done(); }, refuses_in_child());
                EXPECT_THAT([&] { store->list(); }, refuses_in_child());
                ticket.reset();
                store.reset();
              }),
              0);
    waiting.detach();
  }
  ticket->wait();
  store->close();
  store = SnapshotStore::open(dir_ / "store");
  EXPECT_TRUE(sample_.whole(*store, ticket->id(), 1));
}

// The child's exit() must not let go of the parent's lock: told by a process that is no child.
TEST_F(ForkTest, TheParentsLockOutlivesItsChildren) {
  if (role() == "other") {
    EXPECT_THAT([&] { SnapshotStore::open(given_directory() / "store"); },
                fails_with(ErrorCode::busy, "process " + std::to_string(::getppid())));
    return;
  }
  const auto store = SnapshotStore::open(dir_ / "store");
  EXPECT_EQ(in_a_child([] {}), 0);
  SecondProcess other("other", dir_.path());
  EXPECT_EQ(other.finish(), 0);
}

// RocksDB in a forked child waits for threads that are not there: refused, instead of hanging.
TEST_F(ForkTest, AChildIsToldThatItCannotOpenAStoreOfItsOwn) {
  const auto store = SnapshotStore::open(dir_ / "store");
  EXPECT_EQ(in_a_child([&] {
              EXPECT_THAT([&] { SnapshotStore::open(dir_ / "own"); },
                          fails_with(ErrorCode::invalid_argument, "fork before the first open()"));
            }),
            0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "own"));
}

}  // namespace
}  // namespace gradstore
