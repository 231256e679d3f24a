// Names are any bytes; where people or other programs read them, they have to be UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gradstore {

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;  ///< Bytes.
};

/// The code point at the start of `bytes` (not empty); nothing where they are no UTF-8 (RFC 3629:
/// neither overlong forms nor surrogates).
std::optional<CodePoint> first_code_point(std::string_view bytes);

bool is_utf8(std::string_view bytes);

/// Controls, and what changes how the text around it looks or is not seen itself: marks that turn
/// the direction of text, invisible characters.
bool is_unprintable(char32_t code_point);

/// "\x1b" and so on for each of `bytes`.
void append_escaped(std::string& text, std::string_view bytes);

}  // namespace gradstore
