#include "gradstore/snapshot.h"

#include <charconv>
#include <cstdio>

namespace gradstore {

namespace {

constexpr std::size_t kAttemptDigits = 4;
constexpr std::size_t kSequenceDigits = 8;

// Accepts only what to_string() makes: at least `width` digits, no leading zero beyond the width.
bool parse_padded(std::string_view text, std::size_t width, std::uint64_t& value) {
  if (text.size() < width || (text.size() > width && text.front() == '0')) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string to_string(SnapshotId id) {
  char text[48];
  std::snprintf(text, sizeof text, "%04llu-%08llu", static_cast<unsigned long long>(id.attempt),
                static_cast<unsigned long long>(id.sequence));
  return text;
}

std::optional<SnapshotId> parse_snapshot_id(std::string_view text) noexcept {
  const auto dash = text.find('-');
  SnapshotId id;
  if (dash == std::string_view::npos ||
      !parse_padded(text.substr(0, dash), kAttemptDigits, id.attempt) ||
      !parse_padded(text.substr(dash + 1), kSequenceDigits, id.sequence)) {
    return std::nullopt;
  }
  return id;
}

std::string_view name_of(Stage stage) noexcept {
  switch (stage) {
    case Stage::pre_reduce: return "pre_reduce";
    case Stage::post_reduce: return "post_reduce";
    case Stage::unscaled: return "unscaled";
    case Stage::clipped: return "clipped";
  }
  return "invalid";
}

std::optional<Stage> stage_from_code(std::uint8_t code) noexcept {
  if (code > static_cast<std::uint8_t>(Stage::clipped)) return std::nullopt;
  return static_cast<Stage>(code);
}

std::optional<Stage> parse_stage(std::string_view text) noexcept {
  for (std::uint8_t code = 0; stage_from_code(code); ++code) {
    if (name_of(static_cast<Stage>(code)) == text) return static_cast<Stage>(code);
  }
  return std::nullopt;
}

std::string_view name_of(SnapshotState state) noexcept {
  switch (state) {
    case SnapshotState::committed: return "committed";
    case SnapshotState::deleting: return "deleting";
    case SnapshotState::data_gone: return "data gone";
    case SnapshotState::damaged: return "damaged";
  }
  return "invalid";
}

}  // namespace gradstore
