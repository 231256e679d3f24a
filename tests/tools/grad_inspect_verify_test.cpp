#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "archive/verify.h"
#include "commands.h"
#include "grad_inspect_sample.h"
#include "json_text.h"
#include "store_check.h"
#include "support/temp_dir.h"

namespace gradstore::inspect {
namespace {

using archive::FileReader;

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto archive = testing::open_for_writing(dir_ / "store");
    id_ = testing::save(*archive, {3, 4, Stage::post_reduce, true});
    store_ = archive->store();
    paths_ = archive->paths();
    archive->close();
  }

  archive::FileIdentity identity(LayoutKind kind) const { return {kind, store_.uuid, 0, id_}; }

  // Runs the command as the program does.
  std::pair<ExitStatus, Json> run() {
    std::ostringstream out;
    std::ostringstream err;
    const auto status = verify({(dir_ / "store").string()}, {out, err, Style(), true, true});
    return {status, Json::parse(out.str())};
  }

  testing::TempDir dir_;
  SnapshotId id_;
  archive::StoreInfo store_;
  archive::RankPaths paths_;
};

struct Place {
  std::string region;
  std::string param;
  std::optional<std::uint32_t> slice;
  bool operator==(const Place&) const = default;
};

// What lies at `offset`, by the placement that the file's reader works out.
Place place_at(const FileReader& file, std::uint64_t offset) {
  const auto holds = [offset](const archive::Extent& extent) {
    return offset >= extent.offset && offset < extent.end();
  };
  const auto& placement = file.placement();
  if (offset < archive::kSealBytes) return {"seal", {}, {}};
  if (holds(placement.metadata)) return {"metadata", {}, {}};
  if (holds(placement.layout)) return {"layout", {}, {}};
  if (holds(placement.fingerprints)) return {"fingerprints", {}, {}};
  if (holds(placement.manifest)) return {"manifest", {}, {}};
  for (std::size_t s = 0; s < placement.slice_extents.size(); ++s) {
    if (!holds(placement.slice_extents[s])) continue;
    const auto& slice = file.layout().slices[s];
    return {"slice", file.layout().params[slice.param].name, slice.position};
  }
  return {"padding", {}, {}};
}

// Flips every byte of `path` in turn and expects to be told where.
void expect_every_byte_is_covered(const io::Path& path, const archive::FileIdentity& identity) {
  const auto files = io::posix_file_system();
  const FileReader whole(*files, path, identity);
  const auto length = whole.seal().file_length;
  const int fd = ::open(path.c_str(), O_RDWR);
  ASSERT_NE(fd, -1);
  for (std::uint64_t offset = 0; offset < length; ++offset) {
    const auto at = static_cast<off_t>(offset);
    unsigned char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, at), 1);
    const auto flipped = static_cast<unsigned char>(byte ^ (1u << offset % 8));
    ASSERT_EQ(::pwrite(fd, &flipped, 1, at), 1);
    std::vector<archive::Damage> damage;
    try {
      damage = archive::verify_file(*files, path, identity).damage;
    } catch (const Error& error) {
      ADD_FAILURE() << "byte " << offset << ": " << error.what();
    }
    ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1);
    ASSERT_EQ(damage.size(), 1u) << "byte " << offset;
    const Place told{damage[0].region, damage[0].param, damage[0].slice};
    const auto expected = place_at(whole, offset);
    ASSERT_EQ(told, expected) << "byte " << offset << " in " << expected.region
                              << ", told: " << damage[0].region << ' ' << damage[0].what;
    ASSERT_EQ(damage[0].file, path);
  }
  ::close(fd);
  EXPECT_TRUE(archive::verify_file(*files, path, identity).damage.empty());
}

TEST_F(VerifyTest, EveryByteOfAGradientFileIsCoveredAndItsPlaceNamed) {
  expect_every_byte_is_covered(paths_.gradients_file(id_), identity(LayoutKind::gradients));
}

TEST_F(VerifyTest, EveryByteOfAStateFileIsCoveredAndItsPlaceNamed) {
  expect_every_byte_is_covered(paths_.state_file(id_), identity(LayoutKind::state));
}

TEST_F(VerifyTest, WholeStoreIsFine) {
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::fine);
  EXPECT_EQ(json["whole"], true);
  EXPECT_EQ(json["snapshots"], 1);
  EXPECT_EQ(json["files"], 2);
  EXPECT_EQ(json["slices"], 9);
}

TEST_F(VerifyTest, EveryTruncationIsDamage) {
  const auto path = paths_.gradients_file(id_);
  const auto length = std::filesystem::file_size(path);
  for (const auto kept :
       {length - 1, length / 2, std::uintmax_t{4096}, std::uintmax_t{4095}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, kept);
    const auto [status, json] = run();
    EXPECT_EQ(status, ExitStatus::damaged) << kept;
    EXPECT_EQ(json["damage"].size(), 1u) << kept;
  }
}

TEST_F(VerifyTest, MissingFileIsDamage) {
  std::filesystem::remove(paths_.state_file(id_));
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::damaged);
  EXPECT_EQ(json["damage"][0]["file"], "rank-00000/state/0001-00000001.h5");
  EXPECT_EQ(json["damage"][0]["what"], "the file is missing");
}

// The right store, rank and id, every digest fits, and still not what was committed.
TEST_F(VerifyTest, WholeFileOfOtherContentsIsDamage) {
  const auto other = dir_ / "other";
  std::filesystem::create_directory(other);
  std::filesystem::copy_file(dir_ / "store" / "store.json", other / "store.json");
  {
    const auto archive = testing::open_for_writing(other);
    ASSERT_EQ(testing::save(*archive, {4, 4, Stage::post_reduce, true}), id_);
    archive->close();
  }
  const auto file = archive::rank_paths(other, 0).gradients_file(id_);
  std::filesystem::copy_file(file, paths_.gradients_file(id_),
                             std::filesystem::copy_options::overwrite_existing);
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::damaged);
  EXPECT_EQ(json["damage"][0]["region"], "index");
}

TEST_F(VerifyTest, StatisticsThatDifferInTheIndexAreDamage) {
  {
    const auto archive = testing::open_for_writing(dir_ / "store");
    auto& index = archive->index();
    const auto row = index.find(id_);
    const auto layout = index.layout(row->layout_digest);
    auto fingerprints = index.fingerprints(*row, layout);
    fingerprints[1].statistics.zero += 1;
    index.put_durable(*row, layout, fingerprints);
    archive->close();
  }
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::damaged);
  ASSERT_EQ(json["damage"].size(), 1u);
  EXPECT_EQ(json["damage"][0]["region"], "index");
  EXPECT_EQ(json["damage"][0]["param"]["name"], "embed.weight");
  EXPECT_EQ(json["damage"][0]["slice"], 1);
}

class RemovalTest : public VerifyTest {
 protected:
  // Lists the store, lets its writer do something, then checks what was listed.
  template <typename F>
  CheckResult check_after(F change) {
    const auto archive = testing::open_for_writing(dir_ / "store");
    auto store = open_store(parse_address((dir_ / "store").string()));
    const auto selected = select(store, {});
    change(archive->index());
    StoreCheck check(store, [](const CheckResult&) {});
    for (const auto& s : selected) check.check_snapshot(s);
    archive->close();
    return check.result();
  }
};

TEST_F(RemovalTest, SnapshotThatItsWriterRemovesMeanwhileIsGoneNotDamaged) {
  const auto result = check_after([this](index::Index& index) {
    index.set_state_durable(id_, SnapshotState::deleting);
    std::filesystem::remove(paths_.gradients_file(id_));
    std::filesystem::remove(paths_.state_file(id_));
    index.remove_durable(id_);
  });
  EXPECT_TRUE(result.damage.empty());
  EXPECT_EQ(result.gone, std::vector{id_});
}

TEST_F(RemovalTest, SnapshotBeingRemovedIsGoneAsSoonAsItsRowSaysSo) {
  const auto result = check_after([this](index::Index& index) {
    index.set_state_durable(id_, SnapshotState::deleting);
    std::filesystem::remove(paths_.gradients_file(id_));
  });
  EXPECT_TRUE(result.damage.empty());
  EXPECT_EQ(result.gone, std::vector{id_});
}

TEST_F(RemovalTest, FileThatSomebodyElseRemovesIsDamage) {
  const auto result =
      check_after([this](index::Index&) { std::filesystem::remove(paths_.gradients_file(id_)); });
  EXPECT_EQ(result.damage.size(), 1u);
  EXPECT_TRUE(result.gone.empty());
}

TEST_F(VerifyTest, LeftOversAreFindingsNotDamage) {
  const auto path = paths_.gradients_file(id_);
  std::filesystem::copy_file(path, path.string() + ".tmp");
  std::filesystem::copy_file(path, paths_.snapshots() / "0001-00000009.h5");
  std::ofstream(paths_.state() / "notes.txt") << "mine";
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::findings);
  EXPECT_EQ(json["whole"], true);
  EXPECT_EQ(json["leftovers"].size(), 3u);
}

TEST_F(VerifyTest, LostIndexIsDamageAndTheFilesAreStillChecked) {
  std::filesystem::remove_all(paths_.index());
  const auto [status, json] = run();
  EXPECT_EQ(status, ExitStatus::damaged);
  EXPECT_EQ(json["damage"][0]["region"], "index");
  EXPECT_EQ(json["files"], 2);
}

}  // namespace
}  // namespace gradstore::inspect
