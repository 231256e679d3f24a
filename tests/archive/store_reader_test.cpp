#include "gradstore/store_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <thread>

#include "archive/store_view.h"
#include "core/digest.h"
#include "sample_store.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::fails_with;
using ::testing::IsEmpty;
using testing::sample_bytes;
using testing::sample_layout;
using testing::sample_state_layout;
using testing::save;
using ::testing::SizeIs;

class StoreReaderTest : public ::testing::Test {
 protected:
  StoreReaderTest() { open_writer(); }

  void open_writer(std::uint32_t rank = 0, std::uint32_t world_size = 1) {
    writer_.reset();
    auto options = testing::sample_options(store());
    options.rank = rank;
    options.world_size = world_size;
    writer_ = std::make_unique<archive::RankArchive>(std::move(options));
  }

  fs::path store() const { return dir_ / "store"; }
  StoreReader reader() const { return StoreReader::open(store()); }
  fs::path gradients_file(SnapshotId id) const { return writer_->paths().gradients_file(id); }
  fs::path state_file(SnapshotId id) const { return writer_->paths().state_file(id); }

  // Inverts the byte at `offset`.
  static void damage(const fs::path& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(~file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  std::uint64_t offset_of_slice(SnapshotId id, std::size_t number) const {
    return writer_->open_gradients(id).placement().slice_extents[number].offset;
  }

  testing::TempDir dir_;
  std::unique_ptr<archive::RankArchive> writer_;
};

TEST_F(StoreReaderTest, SeesWhatALiveWriterHasCommittedSinceItLooked) {
  const auto reader = this->reader();
  EXPECT_EQ(reader.directory(), store());
  EXPECT_EQ(reader.run_name(), "sample");
  EXPECT_EQ(reader.uuid(), archive::to_text(archive::StoreView(store()).info().uuid));
  EXPECT_THAT(reader.ranks(), ElementsAre(0));
  EXPECT_THAT(reader.list(0), IsEmpty());
  EXPECT_FALSE(reader.latest(0));
  EXPECT_FALSE(reader.find(0, 5, 3, Stage::post_reduce));

  const auto first = save(*writer_, {.step = 5});
  EXPECT_THAT(reader.list(0), SizeIs(1));
  const auto second = save(*writer_, {.step = 6, .with_state = true});
  const auto all = reader.list(0);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].id, first);
  EXPECT_EQ(all[0].metadata.step, 5u);
  EXPECT_FALSE(all[0].state_id);
  EXPECT_EQ(all[1].id, second);
  EXPECT_EQ(all[1].state_id, second);
  EXPECT_EQ(reader.latest(0)->id, second);
  EXPECT_EQ(reader.find(0, 5, 3, Stage::post_reduce)->id, first);
  EXPECT_FALSE(reader.find(0, 5, 3, Stage::clipped));
}

TEST_F(StoreReaderTest, FindAnswersWithTheNewestAttempt) {
  save(*writer_, {.step = 5});
  open_writer();
  const auto again = save(*writer_, {.step = 5});
  EXPECT_EQ(reader().find(0, 5, 3, Stage::post_reduce)->id, again);
}

TEST_F(StoreReaderTest, ParamsAndSlicesAreAsTheyWereWritten) {
  const auto id = save(*writer_, {.seed = 9});
  const auto snapshot = reader().snapshot(0, id);  // It outlives the store's reader.
  EXPECT_EQ(snapshot.info().id, id);
  const auto layout = sample_layout();
  const auto& params = snapshot.params();
  ASSERT_THAT(params, SizeIs(layout.params.size()));
  std::size_t number = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    SCOPED_TRACE(params[i].name);
    EXPECT_EQ(params[i].name, layout.params[i].name);
    EXPECT_EQ(params[i].group_id, layout.groups[layout.params[i].group].id);
    EXPECT_EQ(params[i].dtype, layout.params[i].dtype);
    EXPECT_EQ(params[i].shape, layout.params[i].shape);
    for (std::uint32_t position = 0; position < params[i].slices.size(); ++position, ++number) {
      const auto& slice = params[i].slices[position];
      const auto& expected = layout.slices[number];
      const auto bytes = sample_bytes(layout, number, 9);
      EXPECT_EQ(expected.param, i);
      EXPECT_EQ(slice.dtype, expected.dtype);
      EXPECT_EQ(slice.shape, expected.shape);
      EXPECT_EQ(slice.begin, expected.begin);
      EXPECT_EQ(slice.end, expected.end);
      EXPECT_EQ(slice.padding, expected.padding);
      EXPECT_EQ(slice.num_bytes, bytes.size());
      EXPECT_EQ(slice.digest, to_string(digest_of(bytes)));
      EXPECT_EQ(snapshot.read(params[i].name, position), bytes);
    }
  }
  EXPECT_EQ(number, layout.slices.size());
  EXPECT_EQ(name_of(params[0].presence), "captured");
  EXPECT_EQ(name_of(params[1].presence), "absent");
  EXPECT_FALSE(snapshot.has_state());
  EXPECT_EQ(snapshot.state_json(), "");
  EXPECT_THAT(snapshot.state_tensors(), IsEmpty());
}

TEST_F(StoreReaderTest, StatisticsAreOfTheElementsWithoutPadding) {
  const auto id = save(*writer_, {.seed = 9});
  const auto snapshot = reader().snapshot(0, id);
  const auto layout = sample_layout();
  const auto& padded = layout.slices[1];
  const auto bytes = sample_bytes(layout, 1, 9);
  kernels::StatisticsStream stream(padded.dtype);
  stream.add(std::span(bytes).first((padded.end - padded.begin) * size_of(padded.dtype)));
  const auto expected = stream.result();
  const auto& statistics = snapshot.params()[0].slices[1].statistics;
  EXPECT_EQ(statistics.count, 99u);
  EXPECT_EQ(statistics.nan, expected.nan);
  EXPECT_EQ(statistics.positive_infinity, expected.positive_infinity);
  EXPECT_EQ(statistics.negative_infinity, expected.negative_infinity);
  EXPECT_EQ(statistics.zero, expected.zero);
  EXPECT_EQ(statistics.min, expected.min);
  EXPECT_EQ(statistics.max, expected.max);
  EXPECT_EQ(statistics.absmax, expected.absmax);
  EXPECT_EQ(statistics.sum, expected.sum);
  EXPECT_EQ(statistics.sum_of_squares, expected.sum_of_squares);
  EXPECT_NE(statistics.min, statistics.max);
}

TEST_F(StoreReaderTest, JsonAndCompanionStateAreTheCallers) {
  const auto id = save(*writer_, {.seed = 4,
                                  .with_state = true,
                                  .user_json = R"({"shard":17})",
                                  .state_json = R"({"lr":0.5})"});
  const auto snapshot = reader().snapshot(0, id);
  EXPECT_EQ(snapshot.info().metadata.user_json, R"({"shard":17})");
  EXPECT_TRUE(snapshot.has_state());
  EXPECT_EQ(snapshot.state_json(), R"({"lr":0.5})");
  const auto layout = sample_state_layout();
  const auto& tensors = snapshot.state_tensors();
  ASSERT_THAT(tensors, SizeIs(layout.params.size()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = sample_bytes(layout, i, 4);
    EXPECT_EQ(tensors[i].name, layout.params[i].name);
    EXPECT_EQ(tensors[i].dtype, layout.slices[i].dtype);
    EXPECT_EQ(tensors[i].shape, layout.slices[i].shape);
    EXPECT_EQ(tensors[i].num_bytes, bytes.size());
    EXPECT_EQ(tensors[i].digest, to_string(digest_of(bytes)));
    EXPECT_EQ(snapshot.read_state(tensors[i].name), bytes);
  }
}

TEST_F(StoreReaderTest, WhatIsNotThereIsNotFound) {
  EXPECT_THAT([&] { StoreReader::open(dir_ / "none"); }, fails_with(ErrorCode::not_found, "none"));
  EXPECT_THAT([&] { StoreReader::open(dir_.path()); },
              fails_with(ErrorCode::incompatible, "not a gradstore store"));
  const auto id = save(*writer_, {});
  const auto reader = this->reader();
  EXPECT_THAT([&] { reader.list(3); }, fails_with(ErrorCode::not_found, "no rank 3"));
  EXPECT_THAT([&] { reader.latest(3); }, fails_with(ErrorCode::not_found, "no rank 3"));
  const SnapshotId unknown{9, 9};
  EXPECT_THAT([&] { reader.snapshot(0, unknown); },
              fails_with(ErrorCode::not_found, "0009-00000009"));
  EXPECT_THAT([&] { reader.verify(0, unknown); },
              fails_with(ErrorCode::not_found, "0009-00000009"));
  const auto snapshot = reader.snapshot(0, id);
  EXPECT_THAT([&] { snapshot.read("nobody"); }, fails_with(ErrorCode::not_found, "\"nobody\""));
  EXPECT_THAT([&] { snapshot.read("embed.weight", 2); },
              fails_with(ErrorCode::not_found, "2 slices"));
  EXPECT_THAT([&] { snapshot.read("never.used"); }, fails_with(ErrorCode::not_found, "0 slices"));
  EXPECT_THAT([&] { snapshot.read_state("exp_avg"); },
              fails_with(ErrorCode::not_found, "no companion state"));
}

TEST_F(StoreReaderTest, EachRankHasItsOwnSnapshots) {
  open_writer(1, 2);
  const auto id = save(*writer_, {.step = 8});
  const auto reader = this->reader();
  EXPECT_THAT(reader.ranks(), ElementsAre(0, 1));
  EXPECT_THAT(reader.list(0), IsEmpty());
  ASSERT_THAT(reader.list(1), SizeIs(1));
  EXPECT_EQ(reader.list(1)[0].rank, 1u);
  EXPECT_EQ(reader.snapshot(1, id).params().size(), sample_layout().params.size());
}

TEST_F(StoreReaderTest, DamagedSliceIsNamedAndTheOthersAreRead) {
  const auto whole = save(*writer_, {.seed = 1});
  const auto id = save(*writer_, {.seed = 2, .with_state = true});
  const auto offset = offset_of_slice(id, 1);
  damage(gradients_file(id), offset + 8);
  const auto reader = this->reader();
  const auto snapshot = reader.snapshot(0, id);
  EXPECT_EQ(snapshot.read("embed.weight", 0), sample_bytes(sample_layout(), 0, 2));
  EXPECT_THAT([&] { snapshot.read("embed.weight", 1); },
              fails_with(ErrorCode::corrupt, "param \"embed.weight\", slice 1"));

  EXPECT_THAT(reader.verify(0, whole), IsEmpty());
  const auto found = reader.verify(0, id);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 0u);
  EXPECT_EQ(found[0].snapshot, id);
  EXPECT_EQ(found[0].file, gradients_file(id));
  EXPECT_EQ(found[0].region, "slice");
  EXPECT_EQ(found[0].param, "embed.weight");
  EXPECT_EQ(found[0].slice, 1u);
  EXPECT_EQ(found[0].offset, offset);
  EXPECT_THAT(reader.verify(), SizeIs(1));
}

TEST_F(StoreReaderTest, MissingFileIsDamage) {
  const auto id = save(*writer_, {});
  fs::remove(gradients_file(id));
  const auto reader = this->reader();
  EXPECT_EQ(reader.latest(0)->state, SnapshotState::damaged);
  EXPECT_EQ(reader.list(0)[0].state, SnapshotState::damaged);
  EXPECT_EQ(reader.find(0, 0, 3, Stage::post_reduce)->state, SnapshotState::damaged);
  EXPECT_THAT([&] { reader.snapshot(0, id); },
              fails_with(ErrorCode::corrupt, gradients_file(id).string()));
  const auto found = reader.verify();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].region, "file");
}

TEST_F(StoreReaderTest, DamagedStateDoesNotKeepGradientsFromBeingRead) {
  const auto id = save(*writer_, {.seed = 6, .with_state = true});
  damage(state_file(id), 0);
  const auto reader = this->reader();
  const auto snapshot = reader.snapshot(0, id);
  EXPECT_EQ(snapshot.read("block.0.big"), sample_bytes(sample_layout(), 4, 6));
  EXPECT_TRUE(snapshot.has_state());
  EXPECT_THAT([&] { snapshot.state_json(); }, fails_with(ErrorCode::corrupt, "state"));
  EXPECT_THAT([&] { snapshot.state_tensors(); }, fails_with(ErrorCode::corrupt, "state"));
  EXPECT_THAT([&] { snapshot.read_state("step"); }, fails_with(ErrorCode::corrupt, "state"));
  const auto found = reader.verify();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].file, state_file(id));
}

TEST_F(StoreReaderTest, SnapshotThatWasRemovedCanStillBeReadByWhoHasItOpen) {
  const auto id = save(*writer_, {.seed = 3, .with_state = true});
  const auto reader = this->reader();
  const auto snapshot = reader.snapshot(0, id);
  fs::remove(gradients_file(id));
  fs::remove(state_file(id));
  writer_->index().set_state_durable(id, SnapshotState::data_gone);
  EXPECT_EQ(snapshot.read("block.0.norm"), sample_bytes(sample_layout(), 2, 3));
  EXPECT_EQ(snapshot.read_state("step"), sample_bytes(sample_state_layout(), 1, 3));

  EXPECT_EQ(reader.list(0)[0].state, SnapshotState::data_gone);
  EXPECT_THAT([&] { reader.snapshot(0, id); }, fails_with(ErrorCode::not_found));
  EXPECT_THAT(reader.verify(), IsEmpty());
}

TEST_F(StoreReaderTest, ReadsWhatACrashLeft) {
  const auto id = save(*writer_, {.seed = 5});
  // What is on disk while the writer has it open is what a crash would leave.
  const auto left = dir_ / "left";
  fs::copy(store(), left, fs::copy_options::recursive);
  std::ofstream(left / "rank-00000/snapshots/0001-00000002.h5.tmp") << "half";
  const auto reader = StoreReader::open(left);
  ASSERT_THAT(reader.list(0), SizeIs(1));
  EXPECT_EQ(reader.snapshot(0, id).read("block.0.big"), sample_bytes(sample_layout(), 4, 5));
  EXPECT_THAT(reader.verify(), IsEmpty());
}

TEST_F(StoreReaderTest, WritesNothing) {
  const auto id = save(*writer_, {.with_state = true});
  const auto look = [&] {
    std::map<fs::path, std::pair<std::uintmax_t, fs::file_time_type>> found;
    for (const auto& entry : fs::recursive_directory_iterator(store())) {
      found[entry.path()] = {entry.is_directory() ? 0 : entry.file_size(), entry.last_write_time()};
    }
    return found;
  };
  writer_.reset();
  const auto before = look();
  {
    const auto reader = this->reader();
    reader.list(0);
    reader.snapshot(0, id).read_state("step");
    reader.verify();
  }
  EXPECT_EQ(look(), before);
}

TEST_F(StoreReaderTest, RankWithoutIndexIsNewOrCorrupt) {
  const auto id = save(*writer_, {});
  const auto index = writer_->paths().index();
  const auto file = gradients_file(id);
  writer_.reset();
  fs::rename(index, dir_ / "index");
  const auto reader = this->reader();
  EXPECT_THAT([&] { reader.list(0); }, fails_with(ErrorCode::corrupt, "the index is missing"));
  fs::remove(file);
  EXPECT_THAT(reader.list(0), IsEmpty());
  EXPECT_FALSE(reader.latest(0));
  EXPECT_THAT(reader.verify(), IsEmpty());
  // It is found as soon as it is there.
  fs::rename(dir_ / "index", index);
  EXPECT_THAT(reader.list(0), SizeIs(1));
}

TEST_F(StoreReaderTest, ThreadsMayShareReaders) {
  const auto id = save(*writer_, {.seed = 7, .with_state = true});
  const auto reader = this->reader();
  const auto snapshot = reader.snapshot(0, id);
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const bool found = reader.latest(0)->id >= id && !reader.list(0).empty();
        const bool same = snapshot.read("block.0.big") == sample_bytes(sample_layout(), 4, 7) &&
                          snapshot.read_state("step") == sample_bytes(sample_state_layout(), 1, 7);
        const bool whole = reader.verify(0, id).empty();
        right += found && same && whole;
      });
    }
    save(*writer_, {.seed = 8});
  }
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace gradstore
