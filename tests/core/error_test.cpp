#include "gradstore/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <set>
#include <stdexcept>
#include <string>

#include "core/ensure.h"
#include "support/fails_with.h"

namespace gradstore {
namespace {

using testing::fails_with;

TEST(ErrorTest, CarriesItsCodeAndMessage) {
  const Error error(ErrorCode::not_found, "no such param");
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_STREQ(error.what(), "no such param");
}

TEST(ErrorTest, EachCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code) {
    names.insert(name_of(static_cast<ErrorCode>(code)));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("already_exists", "busy", "corrupt", "incompatible",
                                            "internal", "invalid_argument", "io", "not_found"));
  EXPECT_STREQ(name_of(static_cast<ErrorCode>(99)), "unknown");
}

TEST(ErrorTest, DescribeOfAPlainErrorIsItsMessage) {
  EXPECT_EQ(describe(Error(ErrorCode::io, "disk full")), "disk full");
  EXPECT_EQ(describe(std::runtime_error("other")), "other");
}

TEST(ErrorTest, DescribeJoinsNestedErrorsFromTheOutside) {
  try {
    try {
      try {
        throw std::runtime_error("bad checksum");
      } catch (...) {
        std::throw_with_nested(Error(ErrorCode::corrupt, "Reading decoder/w"));
      }
    } catch (...) {
      std::throw_with_nested(Error(ErrorCode::corrupt, "Restoring step 12"));
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(describe(error), "Restoring step 12: Reading decoder/w: bad checksum");
  }
}

TEST(ErrorTest, DescribeNamesANestedThingThatIsNoException) {
  try {
    try {
      throw 42;
    } catch (...) {
      std::throw_with_nested(Error(ErrorCode::internal, "Calling back"));
    }
  } catch (const Error& error) {
    EXPECT_EQ(describe(error), "Calling back: unknown exception");
  }
}

TEST(EnsureTest, TrueConditionPassesAndFalseOneIsInternalAndNamesThePlace) {
  EXPECT_NO_THROW(ensure(true, "fine"));
  EXPECT_THAT([] { ensure(false, "slices are sorted"); },
              fails_with(ErrorCode::internal, "slices are sorted"));
  EXPECT_THAT([] { ensure(false, "x"); }, fails_with(ErrorCode::internal, "error_test.cpp:"));
}

}  // namespace
}  // namespace gradstore
