#include "gradstore/error.h"

#include <exception>

namespace gradstore {

const char* name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::already_exists: return "already_exists";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::incompatible: return "incompatible";
    case ErrorCode::busy: return "busy";
    case ErrorCode::io: return "io";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string describe(const std::exception& error) {
  std::string text = error.what();
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& nested) {
    text += ": " + describe(nested);
  } catch (...) {
    text += ": unknown exception";
  }
  return text;
}

}  // namespace gradstore
