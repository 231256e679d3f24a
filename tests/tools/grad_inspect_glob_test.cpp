#include <gtest/gtest.h>

#include <string>

#include "glob.h"

namespace gradstore::inspect {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  return Glob(pattern).matches(name);
}

TEST(GlobTest, PlainTextIsItself) {
  EXPECT_TRUE(matches("a.b", "a.b"));
  EXPECT_FALSE(matches("a.b", "axb"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_FALSE(matches("ab", "a"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(GlobTest, StarTakesAnyBytes) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", std::string_view("a/b\0\xff", 5)));
  EXPECT_TRUE(matches("a*c", "abcabc"));
  EXPECT_FALSE(matches("a*c", "abcab"));
  EXPECT_TRUE(matches("*.bias", "layers.0.bias"));
  EXPECT_TRUE(matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(matches("*a*b*", "xxbxxaxx"));
  EXPECT_TRUE(matches("**", "ab"));
}

TEST(GlobTest, ManyStarsTakeLinearTimeEach) {
  const std::string name(20'000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*b", name));
}

TEST(GlobTest, SetsAndRanges) {
  EXPECT_TRUE(matches("l.[0-3]", "l.2"));
  EXPECT_FALSE(matches("l.[0-3]", "l.4"));
  EXPECT_TRUE(matches("l.[!0-3]", "l.4"));
  EXPECT_FALSE(matches("l.[!0-3]", "l.3"));
  EXPECT_TRUE(matches("[]x]", "]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_FALSE(matches("?", ""));
}

TEST(GlobTest, EscapesReachEveryByte) {
  EXPECT_TRUE(matches("\\*", "*"));
  EXPECT_FALSE(matches("\\*", "a"));
  EXPECT_TRUE(matches("\\x1b[[]31m", "\x1b[31m"));
  EXPECT_TRUE(matches("\\x00", std::string_view("\0", 1)));
  EXPECT_TRUE(matches("\\\\", "\\"));
}

TEST(GlobTest, FaultSaysWhere) {
  try {
    Glob glob("ab[c");
    FAIL();
  } catch (const Glob::Fault& fault) {
    EXPECT_EQ(fault.offset, 2u);
    EXPECT_EQ(fault.length, 2u);
  }
}

}  // namespace
}  // namespace gradstore::inspect
