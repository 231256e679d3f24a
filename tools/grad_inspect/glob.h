// Shell patterns over names of any bytes.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gradstore::inspect {

/// `*` any bytes, also none, also dots and slashes; `?` one byte; `[0-9a]`, `[!x]` one of a set;
/// `\xHH` the byte with that hexadecimal value; `\` before any other byte: that byte itself.
class Glob {
 public:
  /// Thrown for a pattern that is none: where, counted in bytes of the pattern, and why.
  struct Fault {
    std::size_t offset = 0;
    std::size_t length = 1;
    std::string why;
  };

  /// Errors: throws Fault.
  explicit Glob(std::string_view pattern);

  bool matches(std::string_view name) const;

 private:
  struct Token {
    bool any_run = false;
    std::bitset<256> bytes;  // Accepted bytes, unless any_run.
  };

  std::vector<Token> tokens_;
};

}  // namespace gradstore::inspect
