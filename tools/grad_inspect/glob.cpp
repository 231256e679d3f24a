#include "glob.h"

#include <optional>

namespace gradstore::inspect {

namespace {

std::optional<unsigned> hex_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

// Takes one byte, written plainly or with a backslash, and moves `at` behind it.
unsigned char take_byte(std::string_view pattern, std::size_t& at) {
  const auto start = at;
  if (pattern[at] != '\\') return static_cast<unsigned char>(pattern[at++]);
  if (++at == pattern.size()) throw Glob::Fault{start, 1, "a byte must follow the backslash"};
  const char escaped = pattern[at++];
  if (escaped != 'x') return static_cast<unsigned char>(escaped);
  unsigned value = 0;
  for (int digit = 0; digit < 2; ++digit, ++at) {
    const auto hex = at < pattern.size() ? hex_value(pattern[at]) : std::nullopt;
    if (!hex) throw Glob::Fault{start, at - start, "two hexadecimal digits must follow \\x"};
    value = value * 16 + *hex;
  }
  return static_cast<unsigned char>(value);
}

// The set behind `[` at `at`; moves behind its `]`.
std::bitset<256> take_set(std::string_view pattern, std::size_t& at) {
  const auto start = at++;
  const bool negated = at < pattern.size() && pattern[at] == '!';
  if (negated) ++at;
  std::bitset<256> set;
  for (bool first = true;; first = false) {
    if (at == pattern.size()) throw Glob::Fault{start, at - start, "this set has no closing ]"};
    if (pattern[at] == ']' && !first) break;
    const auto range_start = at;
    const unsigned low = take_byte(pattern, at);
    unsigned high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      high = take_byte(pattern, at);
      if (high < low) throw Glob::Fault{range_start, at - range_start, "this range is backwards"};
    }
    for (unsigned byte = low; byte <= high; ++byte) set.set(byte);
  }
  ++at;
  return negated ? ~set : set;
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size();) {
    Token token;
    switch (pattern[at]) {
      case '*':
        token.any_run = true;
        ++at;
        break;
      case '?':
        token.bytes.set();
        ++at;
        break;
      case '[': token.bytes = take_set(pattern, at); break;
      default: token.bytes.set(take_byte(pattern, at));
    }
    tokens_.push_back(token);
  }
}

bool Glob::matches(std::string_view name) const {
  // Only the last `*` passed need ever be tried again: an earlier one could but give it less.
  std::size_t token = 0;
  std::size_t at = 0;
  std::optional<std::size_t> last_run;
  std::size_t run_end = 0;
  while (at < name.size()) {
    if (token < tokens_.size() && tokens_[token].any_run) {
      last_run = token++;
      run_end = at;
    } else if (token < tokens_.size() &&
               tokens_[token].bytes.test(static_cast<unsigned char>(name[at]))) {
      ++token;
      ++at;
    } else if (last_run) {
      token = *last_run + 1;
      at = ++run_end;
    } else {
      return false;
    }
  }
  while (token < tokens_.size() && tokens_[token].any_run) ++token;
  return token == tokens_.size();
}

}  // namespace gradstore::inspect
