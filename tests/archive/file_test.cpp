// Writing one file and reading it back.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "archive/file_reader.h"
#include "archive/verify.h"
#include "sample_store.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

class FileTest : public ::testing::Test {
 protected:
  FileTest() { reopen(); }

  void reopen() {
    archive_.reset();
    archive_ = std::make_unique<RankArchive>(testing::sample_options(dir_ / "store"));
  }

  io::Path save(const testing::SampleJob& sample) {
    id_ = testing::save(*archive_, sample);
    return archive_->paths().gradients_file(id_);
  }
  FileIdentity identity() const { return {LayoutKind::gradients, archive_->store().uuid, 0, id_}; }
  Verification verify(const io::Path& path) {
    return verify_file(archive_->files(), path, identity());
  }

  static std::string read_file(const io::Path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_file(const io::Path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  testing::TempDir dir_;
  std::unique_ptr<RankArchive> archive_;
  SnapshotId id_;
};

TEST_F(FileTest, ReadsBackEveryByte) {
  save({.seed = 5, .with_state = true});
  EXPECT_TRUE(testing::holds(*archive_, id_, 5));
  EXPECT_FALSE(testing::holds(*archive_, id_, 6));
}

TEST_F(FileTest, SlicesAcrossManyBlocksReadBack) {
  Layout layout = testing::sample_layout();
  const std::uint64_t elements = 5'000'003;  // 20 MB of float32: three blocks
  layout.params.push_back({"huge", 1, DType::float32, Presence::captured, {elements}});
  layout.slices.push_back({5, 0, DType::float32, {elements}, 0, elements - 3, 3});
  layout.params.back().shape = {elements - 3};
  save({.seed = 9, .layout = layout});
  EXPECT_TRUE(testing::holds(*archive_, id_, 9));
}

TEST_F(FileTest, StatisticsLeaveThePaddingOutAndDigestsTakeItIn) {
  const auto path = save({.seed = 5});
  const FileReader file(archive_->files(), path, identity());
  EXPECT_EQ(file.fingerprints()[1].statistics.count, 99u);  // 101 elements, 2 of them padding
  EXPECT_EQ(file.fingerprints()[1].digest, digest_of(testing::sample_bytes(file.layout(), 1, 5)));
  EXPECT_EQ(file.fingerprints()[3].statistics.count, 0u);
}

TEST_F(FileTest, AFileWithoutSlicesIsAFile) {
  save({.layout = Layout{}});
  EXPECT_TRUE(testing::holds(*archive_, id_, 0));
}

// The promise of `verify`: each byte of the file is covered, and what is damaged is named.
TEST_F(FileTest, EveryFlippedByteIsFoundAndNamed) {
  const auto path = save({.seed = 5});
  const auto whole = read_file(path);
  const FileReader file(archive_->files(), path, identity());
  const auto placement = file.placement();
  const auto layout = file.layout();
  const auto region_at = [&](std::uint64_t at) -> std::string {
    const auto inside = [at](const Extent& extent) {
      return at >= extent.offset && at < extent.end();
    };
    if (at < kSealBytes) return "seal";
    if (inside(placement.metadata)) return "metadata";
    if (inside(placement.layout)) return "layout";
    if (inside(placement.fingerprints)) return "fingerprints";
    if (inside(placement.manifest)) return "manifest";
    for (std::size_t i = 0; i < layout.slices.size(); ++i) {
      if (inside(placement.slice_extents[i])) {
        return layout.params[layout.slices[i].param].name + "/" +
               std::to_string(layout.slices[i].position);
      }
    }
    return "padding";
  };
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char byte) {
    out.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
  };
  // A large slice is sampled: all of its bytes are one region.
  for (std::size_t at = 0; at < whole.size();
       at += (at > 60'000 && at + 5000 < whole.size()) ? 997 : 1) {
    put(at, static_cast<char>(whole[at] ^ 0x10));
    const auto damage = verify(path).damage;
    ASSERT_EQ(damage.size(), 1u) << "byte " << at;
    const auto name = damage[0].region == "slice"
                          ? damage[0].param + "/" + std::to_string(*damage[0].slice)
                          : damage[0].region;
    EXPECT_EQ(name, region_at(at)) << "byte " << at << ": " << damage[0].what;
    put(at, whole[at]);
  }
  EXPECT_TRUE(verify(path).damage.empty());
}

TEST_F(FileTest, EveryTruncationIsFound) {
  const auto path = save({.seed = 5});
  for (auto length = std::filesystem::file_size(path); length-- > 0;
       length -= std::min<std::uintmax_t>(length, 333)) {
    std::filesystem::resize_file(path, length);
    EXPECT_EQ(verify(path).damage.size(), 1u) << length;
    EXPECT_THAT([&] { FileReader(archive_->files(), path, identity()); },
                testing::fails_with(ErrorCode::corrupt, path.string()))
        << length;
  }
}

TEST_F(FileTest, ALongerFileIsFound) {
  const auto path = save({.seed = 5});
  write_file(path, read_file(path) + std::string(4096, '\0'));
  EXPECT_EQ(verify(path).damage.size(), 1u);
}

TEST_F(FileTest, ADamagedSliceIsNamedByReadAndReadableOnRequest) {
  const auto path = save({.seed = 5});
  auto bytes = read_file(path);
  const auto extent = FileReader(archive_->files(), path, identity()).placement().slice_extents[4];
  bytes[extent.offset + 17] = static_cast<char>(bytes[extent.offset + 17] ^ 1);
  write_file(path, bytes);
  const FileReader file(archive_->files(), path, identity());
  std::vector<std::byte> out(extent.length);
  EXPECT_THAT([&] { file.read_slice(4, out); },
              testing::fails_with(ErrorCode::corrupt, "\"block.0.big\", slice 0"));
  EXPECT_NO_THROW(file.read_slice(4, out, /*verify=*/false));
  EXPECT_EQ(static_cast<char>(out[17]), bytes[extent.offset + 17]);
}

TEST_F(FileTest, AFileOfAnotherStoreRankSnapshotOrKindIsRefused) {
  const auto path = save({.seed = 5, .with_state = true});
  auto other = identity();
  other.store[0] ^= std::byte{1};
  EXPECT_THAT([&] { FileReader(archive_->files(), path, other); },
              testing::fails_with(ErrorCode::corrupt, "another store"));
  other = identity();
  other.rank = 1;
  EXPECT_THAT([&] { FileReader(archive_->files(), path, other); },
              testing::fails_with(ErrorCode::corrupt, "rank 0"));
  other = identity();
  other.id.sequence = 7;
  EXPECT_THAT([&] { FileReader(archive_->files(), path, other); },
              testing::fails_with(ErrorCode::corrupt, to_string(id_)));
  EXPECT_THAT([&] { FileReader(archive_->files(), archive_->paths().state_file(id_), identity()); },
              testing::fails_with(ErrorCode::corrupt, "companion state"));
  EXPECT_THAT([&] { FileReader(archive_->files(), dir_ / "none", identity()); },
              testing::fails_with(ErrorCode::not_found));
}

TEST_F(FileTest, RepeatedLayoutsBuildOneSkeleton) {
  for (std::uint64_t step = 0; step < 5; ++step)
    save({.step = step, .seed = step, .with_state = true});
  EXPECT_EQ(archive_->planner().skeletons_built(), 2u);  // gradients and state
}

TEST_F(FileTest, AfterARestartSkeletonsComeFromTheNewestSnapshotUnlessItIsDamaged) {
  const auto path = save({.seed = 1, .with_state = true});
  const auto first = read_file(path);
  reopen();
  const auto second = read_file(save({.seed = 1, .with_state = true}));
  EXPECT_EQ(archive_->planner().skeletons_built(), 0u);
  EXPECT_TRUE(testing::holds(*archive_, id_, 1));
  const auto extent =
      FileReader(archive_->files(), archive_->paths().gradients_file(id_), identity())
          .placement()
          .metadata;
  EXPECT_EQ(second.substr(extent.offset, extent.length),
            first.substr(extent.offset, extent.length));

  auto damaged = second;
  damaged[extent.offset + 5] = static_cast<char>(damaged[extent.offset + 5] ^ 1);
  write_file(archive_->paths().gradients_file(id_), damaged);
  reopen();
  save({.seed = 2, .with_state = true});
  EXPECT_EQ(archive_->planner().skeletons_built(), 1u);
  EXPECT_TRUE(testing::holds(*archive_, id_, 2));
}

}  // namespace
}  // namespace gradstore::archive
