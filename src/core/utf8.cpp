#include "core/utf8.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace gradstore {

namespace {

struct Range {
  char32_t first, last;
};

constexpr std::array kUnprintable{
    Range{0x00, 0x1f},     Range{0x7f, 0x9f},     Range{0xad, 0xad},       Range{0x61c, 0x61c},
    Range{0x180e, 0x180e}, Range{0x200b, 0x200f}, Range{0x2028, 0x202e},   Range{0x2060, 0x206f},
    Range{0xfeff, 0xfeff}, Range{0xfff9, 0xfffb}, Range{0xe0000, 0xe0fff}, Range{0xfdd0, 0xfdef}};

}  // namespace

std::optional<CodePoint> first_code_point(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return CodePoint{lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return std::nullopt;
  auto value = static_cast<char32_t>(lead & (0xff >> (length + 1)));
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte & 0x3f);
  }
  const bool overlong = value < (length == 4 ? 0x10000u : length == 3 ? 0x800u : 0x80u);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (overlong || surrogate || value > 0x10ffff) return std::nullopt;
  return CodePoint{value, length};
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto point = first_code_point(bytes);
    if (!point) return false;
    bytes.remove_prefix(point->length);
  }
  return true;
}

bool is_unprintable(char32_t code_point) {
  return std::ranges::any_of(kUnprintable, [code_point](const Range& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

void append_escaped(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(byte));
    text += escape;
  }
}

}  // namespace gradstore
