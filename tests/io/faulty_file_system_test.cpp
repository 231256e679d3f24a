#include "support/faulty_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::testing {
namespace {

using io::OpenMode;
using Mode = FaultyFileSystem::Mode;
using ::testing::ElementsAre;

class FaultyFileSystemTest : public ::testing::Test {
 protected:
  static void write(io::File& file, std::string_view text) {
    file.write_at(0, std::as_bytes(std::span(text)));
  }
  std::string name(const char* file) { return (dir_ / file).string(); }

  TempDir dir_;
  FaultyFileSystem files_;
};

TEST_F(FaultyFileSystemTest, EveryChangingOperationIsCountedAndLoggedInOrder) {
  files_.create_directory(dir_ / "folder");
  {
    const auto file = files_.open(dir_ / "a", OpenMode::create);
    file->allocate(10);
    write(*file, "12345");
    file->truncate(5);
    file->sync();
  }
  files_.rename(dir_ / "a", dir_ / "b");
  files_.link(dir_ / "b", dir_ / "c");
  files_.remove_file(dir_ / "b");
  files_.remove_directory(dir_ / "folder");
  files_.sync_directory(dir_.path());
  EXPECT_THAT(
      files_.log(),
      ElementsAre("create_directory " + name("folder"), "open " + name("a"),
                  "allocate " + name("a"), "write " + name("a"), "truncate " + name("a"),
                  "sync " + name("a"), "rename " + name("a") + " -> " + name("b"),
                  "link " + name("b") + " -> " + name("c"), "remove_file " + name("b"),
                  "remove_directory " + name("folder"), "sync_directory " + dir_.path().string()));
  EXPECT_EQ(files_.operations(), 11u);
  EXPECT_EQ(files_.operations("sync"), 1u);
  EXPECT_EQ(files_.operations("nonsense"), 0u);
}

TEST_F(FaultyFileSystemTest, ReadingIsNotCountedAndNeverFails) {
  files_.open(dir_ / "a", OpenMode::create);
  files_.arm(1, Mode::sticky);
  std::byte byte{};
  EXPECT_EQ(files_.open(dir_ / "a", OpenMode::read)->read_at(0, {&byte, 1}), 0u);
  EXPECT_THAT(files_.list(dir_.path()), ElementsAre("a"));
  EXPECT_TRUE(files_.status(dir_ / "a"));
  EXPECT_GT(files_.free_bytes(dir_.path()), 0u);
  EXPECT_NO_THROW(files_.lock(dir_ / "lock"));
  EXPECT_EQ(files_.operations(), 1u);
  EXPECT_FALSE(files_.fired());
}

TEST_F(FaultyFileSystemTest, OnceFailsOnlyTheNthOperationAfterArming) {
  const auto file = files_.open(dir_ / "a", OpenMode::create);
  files_.arm(2);
  write(*file, "1");
  EXPECT_FALSE(files_.fired());
  EXPECT_THAT([&] { file->sync(); },
              fails_with(ErrorCode::io, "injected failure at operation 2: sync " + name("a")));
  EXPECT_TRUE(files_.fired());
  EXPECT_NO_THROW(file->sync());
  EXPECT_THAT(files_.log(), ElementsAre("open " + name("a"), "write " + name("a"),
                                        "sync " + name("a") + " (failed)", "sync " + name("a")));
}

TEST_F(FaultyFileSystemTest, StickyFailsAllOperationsFromTheNthUntilDisarmed) {
  files_.arm(2, Mode::sticky);
  files_.create_directory(dir_ / "1");
  EXPECT_THROW(files_.create_directory(dir_ / "2"), Error);
  EXPECT_THROW(files_.create_directory(dir_ / "3"), Error);
  EXPECT_THROW(files_.open(dir_ / "4", OpenMode::append), Error);
  files_.disarm();
  files_.create_directory(dir_ / "5");
  EXPECT_TRUE(files_.fired());
  EXPECT_THAT(files_.list(dir_.path()), ElementsAre("1", "5"));
}

TEST_F(FaultyFileSystemTest, FailingWriteLeavesNothingOrItsFirstHalfWhenTorn) {
  const auto file = files_.open(dir_ / "a", OpenMode::create);
  files_.arm(1);
  EXPECT_THROW(write(*file, "gradient"), Error);
  EXPECT_EQ(file->length(), 0u);
  files_.set_torn_writes(true);
  files_.arm(1);
  EXPECT_THROW(write(*file, "gradient"), Error);
  EXPECT_EQ(io::read_whole(files_, dir_ / "a", 100), "grad");
}

TEST_F(FaultyFileSystemTest, HookSeesEachOperationBeforeItIsDone) {
  std::vector<std::string> seen;
  files_.set_hook([&](std::string_view operation, const io::Path& path) {
    seen.push_back(std::string(operation) + " " + path.filename().string() + " " +
                   std::to_string(files_.operations()));
    EXPECT_FALSE(files_.status(path));
  });
  files_.create_directory(dir_ / "folder");
  files_.open(dir_ / "a", OpenMode::create);
  EXPECT_THAT(seen, ElementsAre("create_directory folder 1", "open a 2"));
}

TEST_F(FaultyFileSystemTest, HookCanEndTheProcessBetweenTwoOperations) {
  const pid_t child = ::fork();
  if (child == 0) {
    files_.set_hook([](std::string_view operation, const io::Path&) {
      if (operation == "rename") std::raise(SIGKILL);
    });
    io::replace_durably(files_, dir_ / "a", std::as_bytes(std::span("12345", 5)));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(files_.list(dir_.path()), ElementsAre("a.tmp"));
}

TEST_F(FaultyFileSystemTest, FilesOutliveTheFileSystem) {
  auto files = std::make_unique<FaultyFileSystem>();
  const auto file = files->open(dir_ / "a", OpenMode::create);
  files.reset();
  EXPECT_NO_THROW(write(*file, "12345"));
}

TEST_F(FaultyFileSystemTest, ExactlyOneOfManyConcurrentOperationsFails) {
  constexpr int kThreads = 4;
  constexpr int kWrites = 100;
  const auto file = files_.open(dir_ / "a", OpenMode::create);
  files_.arm(kThreads * kWrites / 2);
  std::atomic<int> failures = 0;
  std::latch start(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (int n = 0; n < kWrites; ++n) {
          try {
            write(*file, "1");
          } catch (const Error&) {
            ++failures;
          }
        }
      });
    }
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(files_.operations("write"), std::size_t{kThreads * kWrites});
}

}  // namespace
}  // namespace gradstore::testing
