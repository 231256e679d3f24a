// Files that are damaged, missing, or not where they belong: what each call says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gradstore/snapshot_store.h"
#include "sample_gradients.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::SampleGradients;

class DamageTest : public ::testing::Test {
 protected:
  // Two snapshots with state, the store closed.
  void SetUp() override { fill(dir_ / "store", ids_); }
  static void fill(const std::filesystem::path& directory, std::vector<SnapshotId>& ids,
                   StoreOptions options = {}) {
    const auto store = SnapshotStore::open(directory, options);
    for (const auto value : {1, 2}) {
      const SampleGradients sample(value);
      const auto step = static_cast<std::uint64_t>(value);
      ids.push_back(store->snapshot(sample.gradients, {.step = step}, sample.state(value)).id());
    }
    store->close();
  }
  static std::filesystem::path file(const std::filesystem::path& store, const char* folder,
                                    SnapshotId id, const char* rank = "rank-00000") {
    return store / rank / folder / (to_string(id) + ".h5");
  }
  std::filesystem::path gradients(SnapshotId id) { return file(dir_ / "store", "snapshots", id); }
  std::filesystem::path state(SnapshotId id) { return file(dir_ / "store", "state", id); }

  static void flip_byte(const std::filesystem::path& path, std::streamoff offset) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    stream.seekg(offset).get(byte);
    stream.seekp(offset).put(static_cast<char>(byte ^ 1));
  }

  struct Expected {
    SnapshotState in_list = SnapshotState::committed;  // of the newest
    std::string gradients_say = {};                    // what restore() says; empty: it restores
    std::string state_says = {};
  };
  // The newest snapshot is damaged, the first whole; a reopening changes nothing about that.
  void expect_damage(const Expected& expected) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto store = SnapshotStore::open(dir_ / "store");
      SampleGradients target;
      const auto all = store->list();
      ASSERT_EQ(all.size(), 2u);
      EXPECT_EQ(all[1].state, expected.in_list);
      EXPECT_EQ(store->latest()->id, ids_[1]);
      EXPECT_EQ(store->latest_good()->id, ids_[0]);
      EXPECT_TRUE(target.whole(*store, ids_[0], 1));
      expect_says(expected.gradients_say, [&] { store->restore(ids_[1], target.gradients); });
      expect_says(expected.state_says, [&] { store->read_state(ids_[1]); });
    }
  }
  static void expect_says(const std::string& text, const std::function<void()>& call) {
    if (text.empty()) {
      EXPECT_NO_THROW(call());
    } else {
      EXPECT_THAT(call, fails_with(ErrorCode::corrupt, text));
    }
  }

  testing::TempDir dir_;
  std::vector<SnapshotId> ids_;
};

TEST_F(DamageTest, ATruncatedFileIsDamaged) {
  std::filesystem::resize_file(gradients(ids_[1]),
                               std::filesystem::file_size(gradients(ids_[1])) - 4096);
  expect_damage({.in_list = SnapshotState::damaged, .gradients_say = "(truncated)"});
}

TEST_F(DamageTest, AnEmptiedFileIsDamaged) {
  std::filesystem::resize_file(gradients(ids_[1]), 0);
  expect_damage({.in_list = SnapshotState::damaged, .gradients_say = "the file is empty"});
}

TEST_F(DamageTest, AMissingFileIsDamageAndNotAMissingSnapshot) {
  std::filesystem::remove(gradients(ids_[1]));
  expect_damage({.in_list = SnapshotState::damaged, .gradients_say = "the file is missing"});
}

TEST_F(DamageTest, AMissingStateFileIsDamageAndTheGradientsCanBeRestored) {
  std::filesystem::remove(state(ids_[1]));
  expect_damage({.in_list = SnapshotState::damaged, .state_says = "the file is missing"});
}

TEST_F(DamageTest, AStateFileOfOtherContentsIsDamaged) {
  std::ofstream(state(ids_[1])) << "not ours";
  expect_damage({.in_list = SnapshotState::damaged, .state_says = state(ids_[1]).string()});
}

// At places of every kind, 97 bytes apart: the whole file is covered.
TEST_F(DamageTest, AFlippedBitAnywhereIsFound) {
  const auto path = gradients(ids_[1]);
  const auto store = SnapshotStore::open(dir_ / "store");
  const auto length = static_cast<std::streamoff>(std::filesystem::file_size(path));
  for (std::streamoff offset = 0; offset < length; offset += 97) {
    SCOPED_TRACE(offset);
    flip_byte(path, offset);
    EXPECT_EQ(store->latest_good()->id, ids_[0]);
    flip_byte(path, offset);
  }
  EXPECT_EQ(store->latest_good()->id, ids_[1]);
}

TEST_F(DamageTest, AFlippedBitInASliceNamesFileParamAndSliceAndLeavesTheTargetAsItWas) {
  // "weight" takes the first 4000 bytes of the last page, "bias" begins at the next multiple of 64.
  flip_byte(
      gradients(ids_[1]),
      static_cast<std::streamoff>(std::filesystem::file_size(gradients(ids_[1]))) - 4096 + 4032);
  const auto store = SnapshotStore::open(dir_ / "store");
  SampleGradients target(7);
  const auto restore = [&] { store->restore(ids_[1], target.gradients); };
  EXPECT_THAT(restore, fails_with(ErrorCode::corrupt, gradients(ids_[1]).string()));
  EXPECT_THAT(restore, fails_with(ErrorCode::corrupt, "param \"bias\", slice 0"));
  EXPECT_TRUE(at::equal(*target.gradients.get_working_grad_by_param_id(2), at::zeros({7}) + 7));
}

TEST_F(DamageTest, TwoSnapshotsFilesExchangedAreBothDamaged) {
  std::filesystem::rename(gradients(ids_[0]), dir_ / "aside");
  std::filesystem::rename(gradients(ids_[1]), gradients(ids_[0]));
  std::filesystem::rename(dir_ / "aside", gradients(ids_[1]));
  const auto store = SnapshotStore::open(dir_ / "store");
  SampleGradients target;
  for (const auto i : {0, 1}) {
    EXPECT_THAT([&] { store->restore(ids_.at(i), target.gradients); },
                fails_with(ErrorCode::corrupt,
                           "snapshot " + to_string(ids_.at(1 - i)) + "'s file under another name"));
  }
  EXPECT_THAT([&] { store->latest_good(); },
              fails_with(ErrorCode::corrupt, "none of 2 snapshots is whole"));
}

TEST_F(DamageTest, AFileOfAnotherStoreRankAttemptOrKindIsNotTaken) {
  std::vector<SnapshotId> others;
  const auto put = [&](const std::filesystem::path& from) {
    std::filesystem::copy_file(from, gradients(ids_[1]),
                               std::filesystem::copy_options::overwrite_existing);
  };
  fill(dir_ / "other", others);
  put(file(dir_ / "other", "snapshots", others[1]));
  expect_damage({.gradients_say = "belongs to another store"});

  others.clear();
  fill(dir_ / "store", others, {.rank = 1, .world_size = 2});
  put(file(dir_ / "store", "snapshots", others[1], "rank-00001"));
  expect_damage({.gradients_say = "belongs to rank 1, not 0"});

  put(state(ids_[1]));
  expect_damage({.in_list = SnapshotState::damaged, .gradients_say = "holds companion state"});

  put(gradients(ids_[0]));
  expect_damage({.gradients_say = "is snapshot " + to_string(ids_[0]) + "'s file"});
}

TEST_F(DamageTest, WhereNoneIsWholeNobodyIsToldThatThereIsNone) {
  std::filesystem::resize_file(gradients(ids_[0]), 10);
  std::filesystem::remove(gradients(ids_[1]));
  const auto store = SnapshotStore::open(dir_ / "store");
  EXPECT_THAT(
      [&] { store->latest_good(); },
      fails_with(ErrorCode::corrupt, "none of 2 snapshots is whole; " +
                                         gradients(ids_[1]).string() + ": the file is missing"));
  EXPECT_FALSE(SnapshotStore::open(dir_ / "new")->latest_good());
}

TEST_F(DamageTest, ADeletedIndexIsRefusedAndNothingIsChanged) {
  std::filesystem::remove_all(dir_ / "store/rank-00000/index");
  const auto open = [&] { SnapshotStore::open(dir_ / "store"); };
  EXPECT_THAT(open, fails_with(ErrorCode::corrupt, "the index is missing"));
  EXPECT_THAT(open, fails_with(ErrorCode::corrupt, "Nothing was changed"));
  EXPECT_TRUE(std::filesystem::exists(gradients(ids_[1])));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "store/rank-00000/index"));
}

// The newest log, as a crash during an append leaves it: everything but its last bytes.
TEST_F(DamageTest, ATornIndexLogLosesNothing) {
  std::filesystem::path log;
  {
    const auto store = SnapshotStore::open(dir_ / "store");
    const SampleGradients sample(3);
    ids_.push_back(store->snapshot(sample.gradients, {.step = 3}).id());
    store->snapshot(sample.gradients, {.step = 4}).wait();
    // As the disk is now: closing would empty the log.
    std::filesystem::copy(dir_ / "store", dir_ / "crashed",
                          std::filesystem::copy_options::recursive);
  }
  std::filesystem::remove(dir_ / "crashed/rank-00000/index/LOCK");
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "crashed/rank-00000/index")) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path();
  }
  ASSERT_FALSE(log.empty());
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 5);

  const auto store = SnapshotStore::open(dir_ / "crashed");
  const SampleGradients sample;
  ASSERT_EQ(store->list().size(), 4u) << "the last row's file is there and was adopted";
  EXPECT_EQ(store->latest_good()->metadata.step, 4u);
  EXPECT_TRUE(sample.whole(*store, ids_[0], 1));
  EXPECT_TRUE(sample.whole(*store, ids_[2], 3));
}

TEST_F(DamageTest, ABitFlippedAmongTheIndexsRowsIsRefusedNamingTheIndex) {
  std::filesystem::path table;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "store/rank-00000/index")) {
    if (entry.path().extension() == ".sst") {
      flip_byte(entry.path(), 20);
      table = entry.path();
    }
  }
  ASSERT_FALSE(table.empty());
  EXPECT_THAT(
      [&] {
        const auto store = SnapshotStore::open(dir_ / "store");
        store->list();
      },
      fails_with(ErrorCode::corrupt, (dir_ / "store/rank-00000/index").string()));
}

}  // namespace
}  // namespace gradstore
