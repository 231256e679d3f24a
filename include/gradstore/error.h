// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace gradstore {

/// What the caller can do about a failure.
enum class ErrorCode {
  invalid_argument,  ///< The call is wrong: fix the call.
  not_found,         ///< What was named does not exist.
  already_exists,    ///< What was to be created exists.
  corrupt,           ///< Bytes on disk are damaged: use another snapshot, or repair.
  incompatible,      ///< Whole, but not for this program, model or store: nothing was changed.
  busy,              ///< Somebody else holds it, or no room right now: try again later.
  io,                ///< The operating system refused: disk full, permission, failing device.
  internal,          ///< A fault of this library: please report it.
};

/// The code's name as in the enumeration, e.g. "not_found".
const char* name_of(ErrorCode code) noexcept;

/// Thrown by every function of the library that fails (besides std::bad_alloc). The message says
/// what happened, where (file, param, step) and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// The messages of `error` and of everything nested in it (std::throw_with_nested), joined by ": ".
std::string describe(const std::exception& error);

}  // namespace gradstore
