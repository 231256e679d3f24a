// Folders that are no store, or not one for this program.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gradstore/snapshot_store.h"
#include "sample_gradients.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

using testing::fails_with;
using testing::SampleGradients;

class OpenTest : public ::testing::Test {
 protected:
  auto opening(const std::filesystem::path& path) {
    return [path] { SnapshotStore::open(path); };
  }
  void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  testing::TempDir dir_;
};

TEST_F(OpenTest, AFolderWithOtherThingsIsNotTakenOver) {
  write(dir_ / "thesis.tex", "precious");
  EXPECT_THAT(opening(dir_.path()),
              fails_with(ErrorCode::incompatible, "not a gradstore store, and not empty"));
  EXPECT_THAT(opening(dir_.path()), fails_with(ErrorCode::incompatible, "\"thesis.tex\""));
  EXPECT_THAT(opening(dir_ / "thesis.tex"),
              fails_with(ErrorCode::incompatible, "is a file, not a folder"));
  EXPECT_EQ(read(dir_ / "thesis.tex"), "precious");
  EXPECT_THAT(opening(""),
              fails_with(ErrorCode::invalid_argument, "the path of the store is empty"));
}

TEST_F(OpenTest, AStoreOfANewerVersionIsRefusedAndLeftAsItIs) {
  const SampleGradients sample(1);
  SnapshotStore::open(dir_ / "store")->snapshot(sample.gradients, {}).wait();
  const auto path = dir_ / "store/store.json";
  auto text = read(path);
  const auto version = text.find("\"version\": 1");
  ASSERT_NE(version, std::string::npos);
  const auto newer = text.replace(version, 12, "\"version\": 2");
  write(path, newer);
  EXPECT_THAT(opening(dir_ / "store"), fails_with(ErrorCode::incompatible, "version 2"));
  EXPECT_THAT(opening(dir_ / "store"), fails_with(ErrorCode::incompatible, "use a newer one"));
  EXPECT_THAT(opening(dir_ / "store"), fails_with(ErrorCode::incompatible, path.string()));
  EXPECT_EQ(read(path), newer);
}

TEST_F(OpenTest, ADamagedDescriptionOfTheStoreIsDamageAndNotANewStore) {
  SnapshotStore::open(dir_ / "store")->close();
  const auto path = dir_ / "store/store.json";
  for (const std::string text : {"", "{", R"({"format":"gradstore store","version":1})"}) {
    write(path, text);
    EXPECT_THAT(opening(dir_ / "store"), fails_with(ErrorCode::corrupt, path.string()));
  }
  std::filesystem::remove(path);
  EXPECT_THAT(opening(dir_ / "store"), fails_with(ErrorCode::corrupt, "store.json is missing"));
}

}  // namespace
}  // namespace gradstore
