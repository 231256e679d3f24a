#include "hdf5/link_name.h"

#include <cstdint>
#include <span>

#include "core/digest.h"
#include "core/utf8.h"

namespace gradstore::hdf5 {

namespace {

constexpr std::string_view kCutMark = "%~";
constexpr std::size_t kHashDigits = 16;
constexpr std::size_t kLongestCut = kLongestLinkName - kCutMark.size() - kHashDigits;

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool stands_for_itself(char32_t character) {
  const bool control = character < 0x20 || (character >= 0x7f && character <= 0x9f);
  return !control && character != '%' && character != '/';
}

void append_percent_escaped(std::string& link, std::string_view bytes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    link += '%';
    link += kHex[byte_at(bytes, i) >> 4];
    link += kHex[byte_at(bytes, i) & 15];
  }
}

void append_hash(std::string& link, std::string_view name) {
  constexpr char kHex[] = "0123456789abcdef";
  const std::uint64_t hash = checksum64_of(std::as_bytes(std::span(name)));
  for (int shift = 60; shift >= 0; shift -= 4) link += kHex[(hash >> shift) & 15];
}

}  // namespace

std::string link_name(std::string_view name) {
  if (name.empty()) return std::string(kCutMark);
  std::string link;
  if (name == "." || name == "..") {
    append_percent_escaped(link, name);
    return link;
  }

  std::size_t cut = 0;  // Where to cut `link` if it grows too long.
  for (std::size_t i = 0; i < name.size();) {
    const auto point = first_code_point(name.substr(i));
    const auto unit = name.substr(i, point ? point->length : 1);
    if (point && stands_for_itself(point->value)) {
      link += unit;
    } else {
      append_percent_escaped(link, unit);
    }
    if (link.size() <= kLongestCut) cut = link.size();
    if (link.size() > kLongestLinkName) {
      link.resize(cut);
      link += kCutMark;
      append_hash(link, name);
      return link;
    }
    i += unit.size();
  }
  return link;
}

}  // namespace gradstore::hdf5
