#include "human_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "archive/manifest.h"
#include "core/utf8.h"

namespace gradstore::inspect {

namespace {

struct Range {
  char32_t first, last;
};

bool in_any(const auto& ranges, char32_t value) {
  return std::ranges::any_of(
      ranges, [value](const Range& range) { return value >= range.first && value <= range.last; });
}

constexpr std::array kCombining{Range{0x300, 0x36f},   Range{0x483, 0x489},   Range{0x591, 0x5bd},
                                Range{0x610, 0x61a},   Range{0x64b, 0x65f},   Range{0x1ab0, 0x1aff},
                                Range{0x1dc0, 0x1dff}, Range{0x20d0, 0x20ff}, Range{0xfe00, 0xfe0f},
                                Range{0xfe20, 0xfe2f}};
constexpr std::array kWide{Range{0x1100, 0x115f},   Range{0x2e80, 0x303e},  Range{0x3041, 0xa4cf},
                           Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},  Range{0xfe30, 0xfe6f},
                           Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},  Range{0x1f300, 0x1f64f},
                           Range{0x1f900, 0x1f9ff}, Range{0x20000, 0x3fffd}};

std::size_t width_of(char32_t value) {
  if (value < 0x300) return 1;
  if (in_any(kCombining, value)) return 0;
  return in_any(kWide, value) ? 2 : 1;
}

std::string visible(std::string_view bytes, bool double_backslash, bool keep_newlines) {
  std::string text;
  while (!bytes.empty()) {
    const auto point = first_code_point(bytes);
    const auto part = bytes.substr(0, point ? point->length : 1);
    const bool newline = keep_newlines && part == "\n";
    if (!point || (is_unprintable(point->value) && !newline)) {
      append_escaped(text, part);
    } else {
      if (part == "\\" && double_backslash) text += '\\';
      text += part;
    }
    bytes.remove_prefix(part.size());
  }
  return text;
}

}  // namespace

std::string visible_name(std::string_view bytes) { return visible(bytes, true, false); }
std::string visible_text(std::string_view bytes) { return visible(bytes, false, false); }
std::string visible_lines(std::string_view bytes) { return visible(bytes, false, true); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const auto point = first_code_point(text);
    width += point ? width_of(point->value) : 1;
    text.remove_prefix(point ? point->length : 1);
  }
  return width;
}

std::string shortened(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  constexpr std::string_view kGap = "…";
  // The tail tells names apart more often than the head does, so it gets as much.
  const auto half = (width - 1) / 2;
  std::size_t head = 0;
  for (std::size_t taken = 0; taken < half;) {
    const auto point = first_code_point(std::string_view(text).substr(head));
    taken += width_of(point->value);
    if (taken <= half) head += point->length;
  }
  auto tail = text.size();
  for (std::size_t taken = 0; taken < half;) {
    auto start = tail - 1;
    while ((static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
    taken += width_of(first_code_point(std::string_view(text).substr(start))->value);
    if (taken <= half) tail = start;
  }
  return text.substr(0, head) + std::string(kGap) + text.substr(tail);
}

std::string with_thousands(std::uint64_t number) {
  auto text = std::to_string(number);
  for (auto at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string plural(std::uint64_t number, const std::string& one) {
  return with_thousands(number) + " " + one + (number == 1 ? "" : "s");
}

std::string short_number(double value) {
  char text[40];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6).ptr;
  std::string result(text, end);
  return result == "-nan" ? "nan" : result;
}

std::string utc_time(std::int64_t unix_ns) {
  auto text = archive::to_iso8601(unix_ns);
  text = text.substr(0, text.find('.'));
  std::ranges::replace(text, 'T', ' ');
  return text;
}

std::string duration_text(std::int64_t ns) {
  const auto seconds = ns / 1'000'000'000;
  const auto pair = [](std::int64_t large, const char* unit, std::int64_t small,
                       const char* small_unit) {
    auto text = std::to_string(large);
    text.append(" ").append(unit);
    if (small != 0) text.append(" ").append(std::to_string(small)).append(" ").append(small_unit);
    return text;
  };
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return pair(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 86'400) return pair(seconds / 3600, "h", seconds % 3600 / 60, "min");
  if (seconds < 10 * 86'400) return pair(seconds / 86'400, "d", seconds % 86'400 / 3600, "h");
  return std::to_string(seconds / 86'400) + " d";
}

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace gradstore::inspect
