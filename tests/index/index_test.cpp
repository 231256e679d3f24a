#include "index/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gradstore/error.h"
#include "index/child_process.h"
#include "index/index_samples.h"
#include "index/key_codec.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class IndexTest : public ::testing::Test {
 protected:
  void put(SnapshotId id) { put_sample(*index_, id, layout_); }

  void open() { index_ = Index::open(io::posix_file_system(), directory_); }

  // Opens what the index left with plain RocksDB and puts one entry.
  void put_raw(const std::string& family, const std::string& key, const std::string& value) {
    index_.reset();
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const auto* name : {"default", "layouts", "snapshots", "steps", "pages", "pins"}) {
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    rocksdb::DB* opened = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    ASSERT_TRUE(rocksdb::DB::Open({}, directory_.string(), families, &handles, &opened).ok());
    const std::unique_ptr<rocksdb::DB> database(opened);
    for (auto* handle : handles) {
      if (handle->GetName() == family) {
        ASSERT_TRUE(database->Put({}, handle, key, value).ok());
      }
      delete handle;
    }
  }

  testing::TempDir temporary_;
  io::Path directory_ = temporary_ / "index";
  Layout layout_ = sample_layout(20);  // Two pages, the second not full.
  std::unique_ptr<Index> index_ = Index::open(io::posix_file_system(), directory_);
};

TEST_F(IndexTest, NewIndexIsEmpty) {
  EXPECT_THAT(index_->list(), IsEmpty());
  EXPECT_FALSE(index_->latest());
  EXPECT_FALSE(index_->find({1, 1}));
  EXPECT_THAT(index_->find(0, 0, Stage::clipped), IsEmpty());
  EXPECT_EQ(index_->high_water(), SnapshotId{});
}

TEST_F(IndexTest, ExistsOnceItWasOpened) {
  auto& files = *io::posix_file_system();
  EXPECT_TRUE(Index::exists(files, directory_));
  EXPECT_FALSE(Index::exists(files, temporary_ / "other"));
  EXPECT_FALSE(Index::exists(files, temporary_.path()));
}

TEST_F(IndexTest, WhatWasPutIsFoundWhole) {
  put({1, 1});
  put({1, 2});
  EXPECT_TRUE(whole(*index_, {1, 1}, layout_));
  EXPECT_TRUE(whole(*index_, {1, 2}, layout_));
  EXPECT_TRUE(absent(*index_, {1, 3}, layout_));
}

TEST_F(IndexTest, SnapshotWithoutSlicesIsFoundWhole) {
  put_sample(*index_, {1, 1}, {});
  EXPECT_TRUE(whole(*index_, {1, 1}, {}));
}

TEST_F(IndexTest, ListIsInNumericOrderOfIds) {
  for (const SnapshotId id : {SnapshotId{2, 1}, {1, 256}, {1, 3}, {256, 1}}) put(id);
  EXPECT_THAT(ids_of(index_->list()), ElementsAre(SnapshotId{1, 3}, SnapshotId{1, 256},
                                                  SnapshotId{2, 1}, SnapshotId{256, 1}));
}

TEST_F(IndexTest, LatestIsTheGreatestCommittedId) {
  for (const SnapshotId id : {SnapshotId{1, 300}, {2, 1}, {2, 2}}) put(id);
  EXPECT_EQ(index_->latest()->info.id, (SnapshotId{2, 2}));
  index_->set_state_durable({2, 2}, SnapshotState::deleting);
  EXPECT_EQ(index_->latest()->info.id, (SnapshotId{2, 1}));
  index_->set_state_durable({2, 1}, SnapshotState::data_gone);
  EXPECT_EQ(index_->latest()->info.id, (SnapshotId{1, 300}));
  index_->set_state_durable({1, 300}, SnapshotState::deleting);
  EXPECT_FALSE(index_->latest());
}

TEST_F(IndexTest, FindByStepGivesAllAttemptsInOrder) {
  const auto put_at = [&](SnapshotId id, std::uint64_t step, std::uint32_t micro_step,
                          Stage stage) {
    auto row = sample_row(id, layout_);
    row.info.metadata.step = step;
    row.info.metadata.micro_step = micro_step;
    row.info.metadata.stage = stage;
    index_->put_durable(row, layout_, sample_fingerprints(id, layout_));
  };
  put_at({2, 1}, 9, 1, Stage::unscaled);
  put_at({1, 7}, 9, 1, Stage::unscaled);
  put_at({1, 8}, 9, 2, Stage::unscaled);
  put_at({1, 9}, 9, 1, Stage::clipped);
  put_at({1, 10}, 10, 1, Stage::unscaled);
  EXPECT_THAT(index_->find(9, 1, Stage::unscaled), ElementsAre(SnapshotId{1, 7}, SnapshotId{2, 1}));
  EXPECT_THAT(index_->find(9, 1, Stage::pre_reduce), IsEmpty());
}

TEST_F(IndexTest, PinsAreFilledIn) {
  put({1, 1});
  put({1, 2});
  index_->set_pinned_durable({1, 1}, true);
  EXPECT_TRUE(index_->find({1, 1})->info.pinned);
  EXPECT_TRUE(index_->list()[0].info.pinned);
  EXPECT_FALSE(index_->list()[1].info.pinned);
  EXPECT_FALSE(index_->latest()->info.pinned);
  index_->set_pinned_durable({1, 2}, true);
  EXPECT_TRUE(index_->latest()->info.pinned);
  index_->set_pinned_durable({1, 1}, false);
  EXPECT_FALSE(index_->find({1, 1})->info.pinned);
}

TEST_F(IndexTest, PinSurvivesAChangeOfState) {
  put({1, 1});
  index_->set_pinned_durable({1, 1}, true);
  index_->set_state_durable({1, 1}, SnapshotState::data_gone);
  EXPECT_TRUE(index_->find({1, 1})->info.pinned);
  EXPECT_EQ(index_->find({1, 1})->info.state, SnapshotState::data_gone);
}

TEST_F(IndexTest, RemovedSnapshotLeavesNothingButTheHighWater) {
  put({1, 1});
  put({1, 2});
  index_->set_pinned_durable({1, 2}, true);
  const auto row = *index_->find({1, 2});
  index_->remove_durable({1, 2});
  EXPECT_THAT(ids_of(index_->list()), ElementsAre(SnapshotId{1, 1}));
  EXPECT_THAT(index_->find(row.info.metadata.step, 2, Stage::unscaled), IsEmpty());
  EXPECT_THAT([&] { index_->fingerprints(row, layout_); },
              fails_with(ErrorCode::corrupt, "page 0"));
  EXPECT_EQ(index_->high_water(), (SnapshotId{1, 2}));
  EXPECT_TRUE(whole(*index_, {1, 1}, layout_));
  put({1, 2});
  EXPECT_FALSE(index_->find({1, 2})->info.pinned);
}

TEST_F(IndexTest, UnknownIdIsNotFound) {
  const auto not_found = fails_with(ErrorCode::not_found, "0001-00000009");
  EXPECT_THAT([&] { index_->set_state_durable({1, 9}, SnapshotState::deleting); }, not_found);
  EXPECT_THAT([&] { index_->set_pinned_durable({1, 9}, true); }, not_found);
  EXPECT_THAT([&] { index_->remove_durable({1, 9}); }, not_found);
}

TEST_F(IndexTest, HighWaterIsNeverLowered) {
  index_->raise_high_water_durable({3, 5});
  index_->raise_high_water_durable({3, 4});
  index_->raise_high_water_durable({2, 9});
  put({3, 2});
  EXPECT_EQ(index_->high_water(), (SnapshotId{3, 5}));
  put({3, 6});
  EXPECT_EQ(index_->high_water(), (SnapshotId{3, 6}));
}

TEST_F(IndexTest, MismatchedArgumentsAreRefused) {
  const auto fingerprints = sample_fingerprints({1, 1}, layout_);
  EXPECT_THAT(
      [&] {
        index_->put_durable(sample_row({1, 1}, layout_), layout_, {});
      },
      fails_with(ErrorCode::invalid_argument, "0001-00000001"));
  auto row = sample_row({1, 1}, layout_);
  row.layout_digest.bytes[3] ^= std::byte{1};
  EXPECT_THAT([&] { index_->put_durable(row, layout_, fingerprints); },
              fails_with(ErrorCode::internal, "layout"));
  EXPECT_TRUE(absent(*index_, {1, 1}, layout_));
}

TEST_F(IndexTest, RowsOutliveCloseAndOpen) {
  put({1, 1});
  index_->set_pinned_durable({1, 1}, true);
  index_->close();
  open();
  EXPECT_TRUE(whole(*index_, {1, 1}, layout_));
  EXPECT_TRUE(index_->find({1, 1})->info.pinned);
  put({1, 2});
  EXPECT_TRUE(whole(*index_, {1, 2}, layout_));
}

TEST_F(IndexTest, RowsOutliveDestructionWithoutClose) {
  put({1, 1});
  index_.reset();
  open();
  EXPECT_TRUE(whole(*index_, {1, 1}, layout_));
}

TEST_F(IndexTest, CloseLeavesNoLogToReplay) {
  put({1, 1});
  index_->close();
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().extension() == ".log") {
      EXPECT_EQ(entry.file_size(), 0u) << entry.path();
    }
  }
}

TEST_F(IndexTest, ClosedIndexRefusesCallsAndMayBeClosedAgain) {
  index_->close();
  index_->close();
  EXPECT_THAT([&] { index_->list(); }, fails_with(ErrorCode::invalid_argument, "closed"));
  EXPECT_THAT([&] { put({1, 1}); }, fails_with(ErrorCode::invalid_argument, "closed"));
  index_->reopen();
  put({1, 1});
  EXPECT_TRUE(whole(*index_, {1, 1}, layout_));
}

TEST_F(IndexTest, SecondOpenIsBusy) {
  EXPECT_THAT([&] { Index::open(io::posix_file_system(), directory_); },
              fails_with(ErrorCode::busy, std::to_string(getpid())));
}

TEST_F(IndexTest, AnotherProcessIsBusyUntilTheFirstEnds) {
  index_.reset();
  ChildProcess child({"hold", directory_.string()});
  ASSERT_EQ(child.read_line(), "open");
  EXPECT_THAT([&] { open(); }, fails_with(ErrorCode::busy, directory_.string()));
  EXPECT_EQ(child.finish(), 0);
  open();
}

TEST_F(IndexTest, ReadersMayRunBesideTheWriterAndReopening) {
  std::atomic<bool> stop = false;
  std::atomic<int> bad = 0;
  put({1, 1});
  std::thread reader([&] {
    while (!stop) {
      if (!whole(*index_, {1, 1}, layout_)) ++bad;
    }
  });
  for (std::uint64_t sequence = 2; sequence < 12; ++sequence) {
    put({1, sequence});
    if (sequence % 4 == 0) index_->reopen();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(index_->list().size(), 11u);
}

TEST_F(IndexTest, LayoutIsStoredOnce) {
  const auto big = sample_layout(50'000);  // ~5 MB.
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence)
    put_sample(*index_, {1, sequence}, big);
  index_->close();
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    bytes += entry.file_size();
  const auto statistics_bytes = 4 * 96 * big.slices.size();
  EXPECT_LT(bytes, statistics_bytes + 2 * encode(big).size());
}

TEST_F(IndexTest, NewerVersionIsIncompatibleAndNamed) {
  put({1, 1});
  put_raw("default", "format_version", encode_number(2));
  EXPECT_THAT([&] { open(); }, fails_with(ErrorCode::incompatible, "has version 2"));
}

TEST_F(IndexTest, ColumnFamilyOfANewerVersionIsIncompatible) {
  index_.reset();
  {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* opened = nullptr;
    directory_ = temporary_ / "newer";
    ASSERT_TRUE(rocksdb::DB::Open(options, directory_.string(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> database(opened);
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(database->CreateColumnFamily({}, "sketches", &handle).ok());
    delete handle;
  }
  EXPECT_THAT([&] { open(); }, fails_with(ErrorCode::incompatible, "sketches"));
}

TEST_F(IndexTest, DamagedRowIsNamed) {
  put({1, 1});
  put_raw("snapshots", encode(SnapshotId{1, 1}), "rubbish");
  open();
  const auto corrupt = fails_with(ErrorCode::corrupt, "snapshot 0001-00000001 in the index");
  EXPECT_THAT([&] { index_->find({1, 1}); }, corrupt);
  EXPECT_THAT([&] { index_->list(); }, corrupt);
  EXPECT_THAT([&] { index_->latest(); }, corrupt);
}

TEST_F(IndexTest, RowUnderAnotherIdIsCorrupt) {
  put_raw("snapshots", encode(SnapshotId{1, 1}), encode(sample_row({1, 2}, layout_)));
  open();
  EXPECT_THAT([&] { index_->find({1, 1}); }, fails_with(ErrorCode::corrupt, "0001-00000001"));
}

TEST_F(IndexTest, DamagedLayoutIsNamed) {
  put({1, 1});
  const auto digest = index_->find({1, 1})->layout_digest;
  put_raw("layouts", encode(digest), encode(sample_layout(3)));
  open();
  EXPECT_THAT([&] { index_->layout(digest); }, fails_with(ErrorCode::corrupt, to_string(digest)));
  EXPECT_THAT([&] { index_->layout({}); }, fails_with(ErrorCode::corrupt, to_string(Digest128{})));
}

TEST_F(IndexTest, MissingTableFileIsCorrupt) {
  put({1, 1});
  index_->close();
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().extension() == ".sst") std::filesystem::remove(entry.path());
  }
  EXPECT_THAT([&] { open(); }, fails_with(ErrorCode::corrupt, directory_.string()));
}

TEST_F(IndexTest, RottenTableFileIsCorruptWhenRead) {
  put({1, 1});
  index_->close();
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().extension() != ".sst") continue;
    const auto file = io::posix_file_system()->open(entry.path(), io::OpenMode::append);
    file->write_at(20, std::as_bytes(std::span("rot", 3)));
  }
  EXPECT_THAT(
      [&] {
        open();
        index_->list();
      },
      fails_with(ErrorCode::corrupt, directory_.string()));
}

}  // namespace
}  // namespace gradstore::index
