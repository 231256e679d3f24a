// Matches a callable that throws an Error with this code and this text in its message:
// EXPECT_THAT([&] { files.remove_file(path); }, fails_with(ErrorCode::not_found, path.string()));
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "gradstore/error.h"

namespace gradstore::testing {

inline auto fails_with(ErrorCode code, const std::string& text = "") {
  return ::testing::Throws<Error>(
      ::testing::AllOf(::testing::Property("code", &Error::code, code),
                       ::testing::Property("what", &Error::what, ::testing::HasSubstr(text))));
}

}  // namespace gradstore::testing
