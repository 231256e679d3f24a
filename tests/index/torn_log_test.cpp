#include "index/torn_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/index_samples.h"
#include "index/index_view.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

// An index whose log holds three snapshots, as a crash would leave it.
class TornLogTest : public ::testing::Test {
 protected:
  explicit TornLogTest(std::size_t num_slices = 20) : layout_(sample_layout(num_slices)) {
    const auto index = Index::open(files_, directory_);
    ends_.push_back(log().size());
    for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
      put_sample(*index, {1, sequence}, layout_);
      ends_.push_back(log().size());
    }
  }

  io::Path log_path() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) return entry.path();
    }
    return {};
  }

  std::string log() const {
    const auto path = log_path();
    return path.empty() ? "" : io::read_whole(*files_, path, 1 << 24);
  }

  void rewrite_log(const std::string& bytes) {
    files_->open(log_path(), io::OpenMode::create_or_empty)->write_at(0, bytes_of(bytes));
  }

  std::optional<std::uint64_t> torn_at() const {
    const auto torn = find_torn_log(*files_, directory_);
    return torn ? std::optional(torn->whole_bytes) : std::nullopt;
  }

  // The first two snapshots are there, the third is whole or absent; more can be put.
  void expect_only_the_last_may_be_lost() {
    const auto view = IndexView::open(directory_);
    EXPECT_TRUE(whole(*view, {1, 1}, layout_));
    EXPECT_TRUE(whole(*view, {1, 2}, layout_));
    EXPECT_TRUE(absent(*view, {1, 3}, layout_));
    const auto index = Index::open(files_, directory_);
    EXPECT_TRUE(whole(*index, {1, 1}, layout_));
    EXPECT_TRUE(whole(*index, {1, 2}, layout_));
    EXPECT_TRUE(absent(*index, {1, 3}, layout_));
    put_sample(*index, {1, 3}, layout_);
    EXPECT_TRUE(whole(*index, {1, 3}, layout_));
  }

  void expect_refused() {
    EXPECT_THAT([&] { IndexView::open(directory_); },
                fails_with(ErrorCode::corrupt, directory_.string()));
    EXPECT_THAT([&] { Index::open(files_, directory_); },
                fails_with(ErrorCode::corrupt, directory_.string()));
  }

  testing::TempDir temporary_;
  io::Path directory_ = temporary_ / "index";
  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
  Layout layout_;
  std::vector<std::size_t> ends_;  // Of the log before the first and after each snapshot.
};

// Records of many fragments.
class LongTornLogTest : public TornLogTest {
 protected:
  LongTornLogTest() : TornLogTest(2000) {}
};

TEST_F(TornLogTest, WholeLogIsNotTorn) {
  EXPECT_FALSE(torn_at());
  EXPECT_FALSE(find_torn_log(*files_, temporary_.path()));
}

TEST_F(TornLogTest, AnyPartOfTheLastRecordIsTorn) {
  const auto whole_log = log();
  for (auto end = ends_[2] + 1; end < ends_[3]; end += 7) {
    auto zeros = whole_log;
    std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(end), zeros.end(), '\0');
    rewrite_log(zeros);
    EXPECT_EQ(torn_at(), ends_[2]) << end;
    rewrite_log(whole_log.substr(0, end));
    EXPECT_EQ(torn_at(), ends_[2]) << end;
  }
}

TEST_F(TornLogTest, DamageBeforeTheLastRecordIsNotTorn) {
  const auto whole_log = log();
  for (std::size_t i = 0; i < ends_[2]; i += 7) {
    auto damaged = whole_log;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    rewrite_log(damaged);
    EXPECT_FALSE(torn_at()) << i;
  }
}

TEST_F(LongTornLogTest, WholeLogIsNotTorn) { EXPECT_FALSE(torn_at()); }

TEST_F(LongTornLogTest, LostFragmentOfTheLastRecordIsTorn) {
  auto damaged = log();
  ASSERT_GT(ends_[3] - ends_[2], 4 * 32768u);
  std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(ends_[2] + 70'000), 4096, '\0');
  rewrite_log(damaged);
  EXPECT_EQ(torn_at(), ends_[2]);
  expect_only_the_last_may_be_lost();
}

TEST_F(LongTornLogTest, LostFragmentOfAnEarlierRecordIsCorrupt) {
  auto damaged = log();
  std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(ends_[1] + 70'000), 4096, '\0');
  rewrite_log(damaged);
  EXPECT_FALSE(torn_at());
  expect_refused();
}

TEST_F(TornLogTest, LogThatEndsEarlyOpens) {
  rewrite_log(log().substr(0, ends_[3] - 9));
  expect_only_the_last_may_be_lost();
}

TEST_F(TornLogTest, LengthWithoutBytesOpens) {
  auto damaged = log();
  std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(ends_[2] + 300), damaged.end(), '\0');
  rewrite_log(damaged);
  expect_only_the_last_may_be_lost();
}

TEST_F(TornLogTest, RubbishInTheLastRecordOpens) {
  auto damaged = log();
  for (std::size_t i = ends_[2]; i < ends_[3]; ++i) damaged[i] = static_cast<char>(i * 37);
  rewrite_log(damaged);
  expect_only_the_last_may_be_lost();
}

TEST_F(TornLogTest, RotBeforeAcknowledgedRecordsIsCorruptNeverSilent) {
  auto damaged = log();
  damaged[ends_[1] + 300] = static_cast<char>(damaged[ends_[1] + 300] ^ 1);
  rewrite_log(damaged);
  expect_refused();
  EXPECT_EQ(log(), damaged);
}

}  // namespace
}  // namespace gradstore::index
