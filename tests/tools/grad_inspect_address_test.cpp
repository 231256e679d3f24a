#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "address.h"
#include "support/fails_with.h"

namespace gradstore::inspect {
namespace {

using gradstore::testing::fails_with;

Address parse(const std::string& text, std::set<std::string> existing = {"store"}) {
  return parse_address(text, [&](const std::string& path) { return existing.contains(path); });
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return {};
}

TEST(AddressTest, StoreAloneSelectsEverything) {
  const auto address = parse("store");
  EXPECT_EQ(address.store, "store");
  EXPECT_EQ(address.selector.text, "");
  EXPECT_FALSE(address.selector.names_snapshots());
}

TEST(AddressTest, EachKeyHasItsField) {
  const auto s = parse(
                     "store@attempt=2,step=100..200:10,micro=3,stage=clipped,rank=0..7,group=-1,"
                     "param=layers.*.w,snapshot=0002-00000042")
                     .selector;
  EXPECT_EQ(s.attempt, (NumberRange{2, 2, 1}));
  EXPECT_EQ(s.step, (NumberRange{100, 200, 10}));
  EXPECT_EQ(s.micro, (NumberRange{3, 3, 1}));
  EXPECT_EQ(s.stage, Stage::clipped);
  EXPECT_EQ(s.rank, (NumberRange{0, 7, 1}));
  EXPECT_EQ(s.group, (NumberRange{-1, -1, 1}));
  ASSERT_TRUE(s.param);
  EXPECT_TRUE(s.param->matches("layers.3.w"));
  EXPECT_EQ(s.snapshot, (SnapshotId{2, 42}));
  EXPECT_FALSE(s.latest_step);
}

TEST(AddressTest, LatestStepIsNotANumber) {
  const auto s = parse("store@step=latest").selector;
  EXPECT_TRUE(s.latest_step);
  EXPECT_FALSE(s.step);
}

TEST(AddressTest, BothEndsOfARangeBelongToIt) {
  const NumberRange range{100, 200, 10};
  EXPECT_TRUE(range.contains(std::uint64_t{100}));
  EXPECT_TRUE(range.contains(std::uint64_t{200}));
  EXPECT_FALSE(range.contains(std::uint64_t{105}));
  EXPECT_FALSE(range.contains(std::uint64_t{210}));
  EXPECT_FALSE(range.contains(UINT64_MAX));
}

TEST(AddressTest, CommaInAPatternHasABackslash) {
  const auto s = parse("store@param=a\\,b,step=1").selector;
  EXPECT_TRUE(s.param->matches("a,b"));
  EXPECT_EQ(s.step, (NumberRange{1, 1, 1}));
}

TEST(AddressTest, LongestExistingPathWins) {
  EXPECT_EQ(parse("a@step=1", {"a", "a@step=1"}).store, "a@step=1");
  EXPECT_EQ(parse("a@b@step=1", {"a", "a@b"}).store, "a@b");
  EXPECT_EQ(parse("a@b/c@step=1", {"a@b/c"}).store, "a@b/c");
  EXPECT_EQ(parse("gone@b@step=1", {}).store, "gone@b");
  EXPECT_EQ(parse("a@param=x@y", {"a"}).selector.text, "param=x@y");
}

TEST(AddressTest, MarkStandsUnderTheWrongPart) {
  EXPECT_EQ(refusal("store@step=1,stage=cliped"),
            "The stages are pre_reduce, post_reduce, unscaled and clipped\n"
            "  store@step=1,stage=cliped\n"
            "                     ^~~~~~");
  EXPECT_EQ(
      refusal("store@stepp=1"),
      "There is no such key; keys: attempt, step, micro, stage, rank, group, param, snapshot\n"
      "  store@stepp=1\n"
      "        ^~~~~");
}

TEST(AddressTest, MarkCountsColumnsNotBytes) {
  EXPECT_THAT(refusal("store@param=\xe6\xa2\xaf,step=x"),
              ::testing::HasSubstr("\n                      ^"));  // A wide character: two columns.
}

TEST(AddressTest, EveryMistakeIsNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"store@", "Expected KEY=VALUE"},
      {"store@step", "Expected KEY=VALUE"},
      {"store@step=1,", "Expected KEY=VALUE"},
      {"store@,step=1", "Expected KEY=VALUE"},
      {"store@step=", "A value must follow"},
      {"store@=1", "no such key"},
      {"store@Step=1", "no such key"},
      {"store@ step=1", "no such key"},
      {"store@step= 1", "Expected a number"},
      {"store@step=1x", "Expected a number"},
      {"store@step=0x10", "Expected a number"},
      {"store@step=+1", "Expected a number"},
      {"store@step=lates", "Expected a number"},
      {"store@step=-1", "cannot be negative"},
      {"store@step=99999999999999999999", "too large"},
      {"store@step=1..", "Expected a number"},
      {"store@step=..1", "Expected a number"},
      {"store@step=1...2", "Expected a number"},
      {"store@step=2..1", "backwards"},
      {"store@step=1..2:0", "at least 1"},
      {"store@step=1..2:", "Expected a number"},
      {"store@step=1:2", "stride needs a range"},
      {"store@step=1,step=2", "twice"},
      {"store@step=latest,step=2", "twice"},
      {"store@step=2,step=latest", "twice"},
      {"store@param=a,param=b", "twice"},
      {"store@snapshot=3", "ATTEMPT-SEQUENCE"},
      {"store@snapshot=1-", "ATTEMPT-SEQUENCE"},
      {"store@snapshot=a-1", "ATTEMPT-SEQUENCE"},
      {"store@param=[a", "closing ]"},
      {"store@param=a\\", "must follow the backslash"},
      {"store@param=\\x4", "two hexadecimal digits"},
      {"store@param=[b-a]", "backwards"},
      {"@step=1", "must come before the @"},
      {"", "path is empty"},
  };
  for (const auto& [text, message] : mistakes) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { parse(text); }, fails_with(ErrorCode::invalid_argument, message));
  }
}

TEST(AddressTest, EscapesInTheMessageAreShownNotObeyed) {
  const auto message = refusal("store@step=\x1b[2J");
  EXPECT_THAT(message, ::testing::HasSubstr("\\x1b[2J"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace gradstore::inspect
