#include "index/torn_log.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <string_view>

namespace gradstore::index {

namespace {

// RocksDB's log format: blocks of 32 KiB; a record lies in one fragment or in several, none of
// which crosses a block. A fragment is checksum (4 bytes), length (2), type (1), payload. Source:
// RocksDB wiki, "Write Ahead Log File Format"; db/log_format.h.
constexpr std::size_t kBlockBytes = 32 * 1024;
constexpr std::size_t kHeaderBytes = 7;
enum FragmentType : unsigned { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr std::size_t kLongestLog = std::size_t{1} << 31;

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 == 1 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc32c_table();
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

// RocksDB stores checksums like this, so that a log inside a log is not taken for one.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

struct Fragment {
  unsigned type = 0;
  std::size_t end = 0;
};

// The fragment at `offset`, if there is a whole one.
std::optional<Fragment> fragment_at(std::string_view log, std::size_t offset) {
  const auto block = log.substr(offset, kBlockBytes - offset % kBlockBytes);
  if (block.size() < kHeaderBytes) return std::nullopt;
  const auto length = little_endian(block.substr(4, 2));
  const auto type = static_cast<unsigned char>(block[6]);
  if (type < kFull || type > kLast || length > block.size() - kHeaderBytes) return std::nullopt;
  if (masked(crc32c(block.substr(6, 1 + length))) != little_endian(block.substr(0, 4))) {
    return std::nullopt;
  }
  return Fragment{type, offset + kHeaderBytes + length};
}

// A block's last bytes stay empty when no header fits there.
std::size_t skip_trailer(std::size_t offset) {
  const auto rest = kBlockBytes - offset % kBlockBytes;
  return rest < kHeaderBytes ? offset + rest : offset;
}

struct WholePart {
  std::size_t end = 0;     // Of the last whole record.
  std::size_t damage = 0;  // Where fragments stop making sense; the log's length if they never do.
};

WholePart measure(std::string_view log) {
  WholePart whole;
  bool in_record = false;
  while ((whole.damage = skip_trailer(whole.damage)) < log.size()) {
    const auto fragment = fragment_at(log, whole.damage);
    const bool starts = fragment && (fragment->type == kFull || fragment->type == kFirst);
    if (!fragment || starts == in_record) break;
    whole.damage = fragment->end;
    in_record = fragment->type == kFirst || fragment->type == kMiddle;
    if (!in_record) whole.end = fragment->end;
  }
  return whole;
}

bool record_starts_behind(std::string_view log, std::size_t damage) {
  for (std::size_t offset = damage + 1; offset < log.size(); ++offset) {
    const auto fragment = fragment_at(log, offset);
    if (fragment && (fragment->type == kFull || fragment->type == kFirst)) return true;
  }
  return false;
}

// Logs are called by their number: 000012.log. Empty ones hold nothing that could be lost.
std::optional<io::Path> newest_log(io::FileSystem& files, const io::Path& directory) {
  std::optional<io::Path> newest;
  std::uint64_t newest_number = 0;
  for (const io::Path name : files.list(directory)) {
    const auto stem = name.stem().string();
    const bool is_log =
        name.extension() == ".log" && !stem.empty() && stem.size() < 20 &&
        std::all_of(stem.begin(), stem.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_log) continue;
    const auto status = files.status(directory / name);
    const auto number = std::stoull(stem);
    if (!status || status->length == 0 || number < newest_number) continue;
    newest = directory / name;
    newest_number = number;
  }
  return newest;
}

}  // namespace

std::optional<TornLog> find_torn_log(io::FileSystem& files, const io::Path& directory) {
  const auto path = newest_log(files, directory);
  if (!path) return std::nullopt;
  const auto log = io::read_whole(files, *path, kLongestLog);
  const auto whole = measure(log);
  if (whole.end == log.size() || record_starts_behind(log, whole.damage)) return std::nullopt;
  return TornLog{*path, whole.end};
}

}  // namespace gradstore::index
