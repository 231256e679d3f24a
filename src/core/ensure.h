// Checks of our own invariants: a failure is a fault of the library, told as such, never an abort.
#pragma once

#include <source_location>
#include <string>

#include "gradstore/error.h"

namespace gradstore {

inline void ensure(bool condition, const char* what,
                   std::source_location where = std::source_location::current()) {
  if (!condition) {
    throw Error(ErrorCode::internal, std::string("gradstore broke an invariant of its own (") +
                                         what + ") at " + where.file_name() + ":" +
                                         std::to_string(where.line()) + "; please report this");
  }
}

}  // namespace gradstore
