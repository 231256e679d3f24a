#include "archive/store_directory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::archive {
namespace {

class StoreDirectoryTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
  }

  testing::TempDir dir_;
  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
};

TEST_F(StoreDirectoryTest, IsCreatedOnceAndThenOnlyRead) {
  const auto first = open_or_create_store(*files_, dir_ / "a/b/store", "run 1");
  const auto second = open_or_create_store(*files_, dir_ / "a/b/store", "another name");
  EXPECT_EQ(first.uuid, second.uuid);
  EXPECT_EQ(second.run_name, "run 1");
  EXPECT_EQ(files_->list(dir_ / "a/b/store"), std::vector<std::string>{"store.json"});
}

TEST_F(StoreDirectoryTest, RanksThatOpenAtOnceAgreeOnOneUuid) {
  std::vector<StoreInfo> infos(8);
  std::vector<std::thread> ranks;
  for (auto& info : infos) {
    ranks.emplace_back([&] { info = open_or_create_store(*files_, dir_ / "store", "run"); });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& info : infos) EXPECT_EQ(info.uuid, infos.front().uuid);
}

TEST_F(StoreDirectoryTest, AFolderWithOtherThingsIsNotTakenOver) {
  write("thesis.tex", "precious");
  EXPECT_THAT([&] { open_or_create_store(*files_, dir_.path(), ""); },
              testing::fails_with(ErrorCode::incompatible, "thesis.tex"));
  EXPECT_THAT([&] { read_store(*files_, dir_.path()); },
              testing::fails_with(ErrorCode::incompatible, "not a gradstore store"));
}

TEST_F(StoreDirectoryTest, NoFolderNewerVersionAndDamageAreThreeErrors) {
  EXPECT_THAT([&] { read_store(*files_, dir_ / "none"); },
              testing::fails_with(ErrorCode::not_found));
  write("store.json", R"({"format":"gradstore store","version":2})");
  EXPECT_THAT([&] { read_store(*files_, dir_.path()); },
              testing::fails_with(ErrorCode::incompatible, "version 2"));
  write("store.json", R"({"format":"grads)");
  EXPECT_THAT([&] { read_store(*files_, dir_.path()); },
              testing::fails_with(ErrorCode::corrupt, "store.json"));
  write("store.json", R"({"format":"gradstore store","version":1,"uuid":"xyz","run_name":""})");
  EXPECT_THAT([&] { read_store(*files_, dir_.path()); }, testing::fails_with(ErrorCode::corrupt));
}

TEST_F(StoreDirectoryTest, RanksAreListedInNumericOrderAndStrangersLeftOut) {
  for (const auto* name :
       {"rank-00010", "rank-00002", "rank-2", "rank-123456", "rank-", "rank-00x01", "other"}) {
    files_->create_directory(dir_ / name);
  }
  EXPECT_EQ(list_ranks(*files_, dir_.path()), (std::vector<std::uint32_t>{2, 10, 123456}));
}

}  // namespace
}  // namespace gradstore::archive
