#include "hdf5/link_name.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/digest.h"

namespace gradstore::hdf5 {

namespace {

constexpr std::string_view kCutMark = "%~";
constexpr std::size_t kHashDigits = 16;
constexpr std::size_t kLongestCut = kLongestLinkName - kCutMark.size() - kHashDigits;

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t utf8_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;

  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond_unicode = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond_unicode ? 0 : length;
}

bool stands_for_itself(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  if (character.size() == 1) return first >= 0x20 && first != 0x7f && first != '%' && first != '/';
  return !(first == 0xc2 && byte_at(character, 1) < 0xa0);  // U+0080 to U+009F are controls.
}

void append_escaped(std::string& link, std::string_view bytes) {
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
    append_escaped(link, name);
    return link;
  }

  std::size_t cut = 0;  // Where to cut `link` if it grows too long.
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(name.substr(i));
    const auto unit = name.substr(i, std::max<std::size_t>(length, 1));
    if (length > 0 && stands_for_itself(unit)) {
      link += unit;
    } else {
      append_escaped(link, unit);
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
