// The promises of a commit: whole or absent, whatever fails and whenever the process dies.
#include "archive/commit.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "sample_store.h"
#include "support/fails_with.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

using testing::FaultyFileSystem;
using testing::holds;
using testing::sample_options;
using testing::save;

class CommitTest : public ::testing::Test {
 protected:
  void open(std::shared_ptr<io::FileSystem> files = io::posix_file_system()) {
    archive_.reset();
    archive_ = std::make_unique<RankArchive>(sample_options(dir_ / "store", std::move(files)));
  }
  std::vector<std::string> names(const io::Path& directory) {
    return io::posix_file_system()->list(directory);
  }

  testing::TempDir dir_;
  std::unique_ptr<RankArchive> archive_;
};

struct Failures {
  FaultyFileSystem::Mode mode;
  bool torn;
  const char* where;         // a part of the paths that fail
  std::size_t least_failed;  // saves that must have failed: open, reserve, two writes, sync,
                             // rename, sync of the directory
  std::size_t least_survived;
};
// Which of its own operations a save meets in the index depends on RocksDB's background threads;
// what it does itself is a fixed list.
constexpr auto kOnce = FaultyFileSystem::Mode::once;
constexpr auto kSticky = FaultyFileSystem::Mode::sticky;
class FailingSaveTest : public CommitTest, public ::testing::WithParamInterface<Failures> {};

// Every operation of a save, files and index alike, fails once (or for good) and for each: the
// snapshot is there whole or not at all, the one before is whole, and the next save works.
TEST_P(FailingSaveTest, FailureAtAnyOperationLeavesTheSnapshotWholeOrAbsent) {
  const auto files = std::make_shared<FaultyFileSystem>();
  files->set_torn_writes(GetParam().torn);
  open(files);
  const auto before = save(*archive_, {.step = 1, .seed = 1, .with_state = true});
  std::size_t failed = 0;
  std::size_t survived = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    files->arm(nth, GetParam().mode, GetParam().where);
    std::optional<SnapshotId> acknowledged;
    std::string told;
    const auto job = testing::make_job(*archive_, {.step = 2, .seed = nth, .with_state = true});
    try {
      archive_->promise_space(job->bytes_total());
      archive_->write(*job);
      acknowledged = job->manifest.id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
      told = error.what();
    }
    const bool fired = files->fired();
    files->disarm();
    const auto id = job->manifest.id;
    const bool unknown = told.find("outcome unknown") != std::string::npos;

    // In this process, at once.
    if (acknowledged) {
      EXPECT_TRUE(holds(*archive_, id, nth));
    }
    if (!acknowledged && !unknown) {
      EXPECT_FALSE(archive_->info(id)) << told;
    }
    EXPECT_TRUE(holds(*archive_, before, 1));
    const auto next = save(*archive_, {.step = 3, .seed = 1000 + nth});
    EXPECT_TRUE(holds(*archive_, next, 1000 + nth));

    // And after a reopen.
    open(files);
    EXPECT_TRUE(holds(*archive_, before, 1));
    EXPECT_TRUE(holds(*archive_, next, 1000 + nth));
    if (acknowledged) {
      EXPECT_TRUE(holds(*archive_, id, nth));
    }
    if (!acknowledged && !unknown) {
      EXPECT_FALSE(archive_->info(id)) << told;
    }
    if (archive_->info(id)) {
      EXPECT_TRUE(holds(*archive_, id, nth));
    }
    for (const auto& name : names(archive_->paths().snapshots()))
      EXPECT_TRUE(name.ends_with(".h5")) << name;

    acknowledged ? ++survived : ++failed;
    if (!fired) break;
  }
  EXPECT_GE(failed, GetParam().least_failed);
  EXPECT_GE(survived, GetParam().least_survived);
}

INSTANTIATE_TEST_SUITE_P(Modes, FailingSaveTest,
                         ::testing::Values(Failures{kOnce, false, "/snapshots", 7, 1},
                                           Failures{kOnce, true, "/snapshots", 7, 1},
                                           Failures{kOnce, true, "/state", 7, 1},
                                           // A row that failed once is put again after a reopening.
                                           Failures{kOnce, false, "/index", 0, 3},
                                           Failures{kOnce, true, "/index", 0, 3},
                                           Failures{kSticky, false, "/snapshots", 7, 1},
                                           Failures{kSticky, false, "/index", 2, 1},
                                           Failures{kSticky, false, "", 16, 1}));

// Without a later save, whose higher id would hide it.
TEST_F(CommitTest, WhatWasToldAsFailedDoesNotComeBackAtTheNextOpen) {
  const auto files = std::make_shared<FaultyFileSystem>();
  open(files);
  for (std::size_t nth = 1; nth <= 7; ++nth) {
    SCOPED_TRACE(nth);
    const auto job = testing::make_job(*archive_, {.seed = nth, .with_state = true});
    files->arm(nth, kOnce, "/snapshots");
    EXPECT_THAT([&] { archive_->write(*job); },
                testing::fails_with(ErrorCode::io, "injected failure"));
    files->disarm();
    open(files);
    EXPECT_FALSE(archive_->info(job->manifest.id));
    EXPECT_TRUE(names(archive_->paths().snapshots()).empty());
    EXPECT_TRUE(names(archive_->paths().state()).empty());
  }
}

TEST_F(CommitTest, EverythingIsSyncedBeforeItIsRenamedAndRenamedBeforeTheRow) {
  const auto files = std::make_shared<FaultyFileSystem>();
  open(files);
  const auto start = files->log().size();
  const auto id = save(*archive_, {.with_state = true});
  std::vector<std::string> order;
  const auto log = files->log();
  for (std::size_t i = start; i < log.size(); ++i) {
    const auto& line = log[i];
    const auto has = [&line](const std::string& text) {
      return line.find(text) != std::string::npos;
    };
    const std::string kind = has("/state")       ? "state"
                             : has("/snapshots") ? "gradients"
                             : has("/index")     ? "index"
                                                 : "?";
    const auto word = line.substr(0, line.find(' '));
    if (word == "sync" || word == "rename" || word == "sync_directory")
      order.push_back(word + " " + kind);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"sync state", "sync gradients", "rename state",
                                             "sync_directory state", "rename gradients",
                                             "sync_directory gradients", "sync index"}));
  EXPECT_TRUE(holds(*archive_, id, 0));
}

TEST_F(CommitTest, IdsAreNeverReusedWhateverBecameOfThem) {
  const auto files = std::make_shared<FaultyFileSystem>();
  open(files);
  std::set<SnapshotId> seen;
  for (int attempt = 0; attempt < 4; ++attempt) {
    for (int i = 0; i < 3; ++i) {
      const auto job = testing::make_job(*archive_, {});
      EXPECT_TRUE(seen.insert(job->manifest.id).second) << to_string(job->manifest.id);
      files->arm(1 + static_cast<std::size_t>(i));
      EXPECT_THROW(archive_->write(*job), Error);
      files->disarm();
    }
    open(files);
  }
}

TEST_F(CommitTest, AFullDiskIsRefusedBeforeAnythingIsWrittenNamingBothFigures) {
  open();
  EXPECT_THAT([&] { archive_->promise_space(1ull << 60); },
              testing::fails_with(ErrorCode::io,
                                  std::to_string((1ull << 60) + (32u << 20)) + " bytes free"));
  EXPECT_NO_THROW(save(*archive_, {}));
}

// What open() does: one test for each line of recovery.cpp's table.

TEST_F(CommitTest, OpenRemovesTemporaryFilesAndUnreferencedState) {
  open();
  const auto kept = save(*archive_, {.seed = 1, .with_state = true});
  const auto paths = archive_->paths();
  archive_.reset();
  std::ofstream(paths.snapshots() / "0001-00000009.h5.tmp") << "half";
  std::ofstream(paths.state() / "0001-00000009.h5") << "a state whose gradients never came";
  open();
  EXPECT_EQ(names(paths.snapshots()), std::vector<std::string>{to_string(kept) + ".h5"});
  EXPECT_EQ(names(paths.state()), std::vector<std::string>{to_string(kept) + ".h5"});
  EXPECT_TRUE(holds(*archive_, kept, 1));
}

// A file newer than the index: what a kill between the rename and the row leaves.
class LostRowTest : public CommitTest {
 protected:
  // The index as it was before the second save.
  SnapshotId save_and_lose_row(std::uint64_t seed) {
    open();
    save(*archive_, {.seed = 1});
    archive_->close();
    archive_.reset();
    const auto index = rank_paths(dir_ / "store", 0).index();
    std::filesystem::copy(index, dir_ / "old-index", std::filesystem::copy_options::recursive);
    open();
    const auto id = save(*archive_, {.seed = seed, .with_state = true});
    archive_.reset();
    std::filesystem::remove_all(index);
    std::filesystem::rename(dir_ / "old-index", index);
    return id;
  }
};

TEST_F(LostRowTest, OpenAdoptsAWholeFileAndNeverGivesItsIdAgain) {
  const auto id = save_and_lose_row(2);
  open();
  EXPECT_TRUE(holds(*archive_, id, 2));
  EXPECT_TRUE(archive_->info(id)->state_id);
  EXPECT_GT(archive_->take_id().attempt, id.attempt);
}

TEST_F(LostRowTest, OpenSetsADamagedFileAsideAndNeverGivesItsIdAgain) {
  const auto id = save_and_lose_row(2);
  const auto path = rank_paths(dir_ / "store", 0).gradients_file(id);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path)) - 5000).put('x');
  }
  open();
  EXPECT_FALSE(archive_->info(id));
  EXPECT_TRUE(std::filesystem::exists(path.string() + ".damaged"));
  EXPECT_GT(archive_->take_id().attempt, id.attempt);
  open();
  EXPECT_TRUE(std::filesystem::exists(path.string() + ".damaged"));
}

TEST_F(CommitTest, OpenRefusesSnapshotsWithoutAnIndexAndChangesNothing) {
  open();
  save(*archive_, {.seed = 1});
  const auto paths = archive_->paths();
  archive_.reset();
  std::filesystem::remove_all(paths.index());
  std::ofstream(paths.snapshots() / "0001-00000009.h5.tmp") << "half";
  EXPECT_THAT([&] { open(); }, testing::fails_with(ErrorCode::corrupt, "grad-inspect repair"));
  EXPECT_EQ(names(paths.snapshots()).size(), 2u);
}

TEST_F(CommitTest, ARowWhoseFileIsMissingOrShortIsShownAsDamagedAndNotDropped) {
  open();
  const auto missing = save(*archive_, {.seed = 1});
  const auto truncated = save(*archive_, {.seed = 2});
  const auto whole = save(*archive_, {.seed = 3});
  std::filesystem::remove(archive_->paths().gradients_file(missing));
  std::filesystem::resize_file(archive_->paths().gradients_file(truncated), 5000);
  open();
  const auto all = archive_->list();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].state, SnapshotState::damaged);
  EXPECT_EQ(all[1].state, SnapshotState::damaged);
  EXPECT_EQ(all[2].state, SnapshotState::committed);
  EXPECT_TRUE(holds(*archive_, whole, 3));
}

TEST_F(CommitTest, OpenFinishesDeletionsThatWereMarked) {
  open();
  const auto id = save(*archive_, {.seed = 1, .with_state = true});
  archive_->index().set_state_durable(id, SnapshotState::deleting);
  EXPECT_FALSE(archive_->info(id));
  open();
  EXPECT_FALSE(archive_->info(id));
  EXPECT_TRUE(names(archive_->paths().snapshots()).empty());
  EXPECT_TRUE(names(archive_->paths().state()).empty());
}

// Kills a writing child before its n-th operation, for every n: what it acknowledged is whole
// afterwards, what was in flight is whole or absent, and the next save works.
TEST_F(CommitTest, KilledBeforeAnyOperationLeavesTheSnapshotWholeOrAbsent) {
  std::size_t adopted = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    std::filesystem::remove_all(dir_ / "store");
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto files = std::make_shared<FaultyFileSystem>();
      RankArchive archive(sample_options(dir_ / "store", files));
      save(archive, {.step = 1, .seed = 1, .with_state = true});
      std::size_t count = 0;
      files->set_hook([&](std::string_view, const io::Path&) {
        if (++count == nth) kill(getpid(), SIGKILL);
      });
      save(archive, {.step = 2, .seed = 2, .with_state = true});
      (void)!write(pipe_ends[1], "a", 1);
      _exit(0);
    }
    close(pipe_ends[1]);
    char byte;
    const bool acknowledged = read(pipe_ends[0], &byte, 1) == 1;
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);

    open();
    EXPECT_TRUE(holds(*archive_, {1, 1}, 1));
    if (acknowledged || archive_->info({1, 2})) {
      EXPECT_TRUE(holds(*archive_, {1, 2}, 2));
    }
    if (!acknowledged && archive_->info({1, 2})) ++adopted;
    EXPECT_TRUE(holds(*archive_, save(*archive_, {.seed = 3}), 3));
    for (const auto& name : names(archive_->paths().snapshots()))
      EXPECT_TRUE(name.ends_with(".h5")) << name;
    archive_.reset();
    if (WIFEXITED(status)) break;
  }
  EXPECT_GE(adopted, 1u) << "a kill between the rename and the row must have left a file to adopt";
}

// The same at random moments, with many saves on the way.
TEST_F(CommitTest, KilledAtRandomMomentsLosesNothingAcknowledged) {
  const char* given = std::getenv("GRADSTORE_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("GRADSTORE_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const int rounds = std::getenv("GRADSTORE_TEST_LONG") ? 200 : 20;
  std::uint64_t most = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::filesystem::remove_all(dir_ / "store");
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      RankArchive archive(sample_options(dir_ / "store"));
      for (std::uint64_t i = 1;; ++i) {
        save(archive, {.step = i, .seed = i, .with_state = i % 2 == 0});
        (void)!write(pipe_ends[1], &i, sizeof i);
      }
    }
    close(pipe_ends[1]);
    std::uint64_t acknowledged = 0;
    std::uint64_t next = 0;
    const auto after = 1 + random() % 6;  // kills inside the save after this one
    while (acknowledged < after && read(pipe_ends[0], &next, sizeof next) == sizeof next)
      acknowledged = next;
    usleep(static_cast<useconds_t>(random() % 15'000));
    kill(child, SIGKILL);
    while (read(pipe_ends[0], &next, sizeof next) == sizeof next) acknowledged = next;
    close(pipe_ends[0]);
    waitpid(child, nullptr, 0);

    open();
    for (std::uint64_t i = 1; i <= acknowledged; ++i) EXPECT_TRUE(holds(*archive_, {1, i}, i)) << i;
    const auto all = archive_->list();
    for (const auto& info : all) EXPECT_TRUE(holds(*archive_, info.id, info.id.sequence));
    EXPECT_LE(all.size(), acknowledged + 1);
    EXPECT_EQ(archive_->take_id(), (SnapshotId{2, 1}));
    archive_.reset();
    most = std::max(most, acknowledged);
  }
  EXPECT_GE(most, 2u);
}

}  // namespace
}  // namespace gradstore::archive
