#include "archive/store_directory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "gradstore/error.h"

namespace gradstore::archive {

namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kRankPrefix = "rank-";
constexpr std::size_t kLongestStoreJson = 1u << 20;

io::Path store_json(const io::Path& store) { return store / "store.json"; }

StoreUuid new_uuid() {
  StoreUuid uuid;
  std::random_device random;
  for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::byte>(random());
  uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x40};  // version 4: random
  uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool parse_uuid(const std::string& text, StoreUuid& uuid) {
  std::string digits;
  std::ranges::remove_copy(text, std::back_inserter(digits), '-');
  if (digits.size() != 2 * uuid.size()) return false;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    const int high = hex_value(digits[2 * i]);
    const int low = hex_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    uuid[i] = static_cast<std::byte>(high * 16 + low);
  }
  return to_text(uuid) == text;
}

// Temp and link instead of a rename: whoever comes second must not replace what the first wrote.
void write_store(io::FileSystem& files, const io::Path& store, const StoreInfo& info) {
  const auto text = ordered_json{{"format", "gradstore store"},
                                 {"version", kVersion},
                                 {"uuid", to_text(info.uuid)},
                                 {"run_name", info.run_name}}
                        .dump(1, ' ', false, ordered_json::error_handler_t::replace) +
                    "\n";
  const auto temporary = store / ("store.json." + to_text(info.uuid) + ".tmp");
  {
    const auto file = files.open(temporary, io::OpenMode::create_or_empty);
    file->write_at(0, std::as_bytes(std::span(text)));
    file->sync();
  }
  try {
    files.link(temporary, store_json(store));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::already_exists) throw;
  }
  files.remove_file(temporary);
  files.sync_directory(store);
}

void create_directories(io::FileSystem& files, const io::Path& path) {
  if (path.empty() || files.status(path)) return;
  create_directories(files, path.parent_path());
  files.create_directory(path);
  files.sync_directory(path.parent_path().empty() ? io::Path(".") : path.parent_path());
}

}  // namespace

std::string to_text(const StoreUuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(uuid[i]));
    text += digits;
  }
  return text;
}

io::Path temporary_of(const io::Path& file) { return file.string() + ".tmp"; }

RankPaths rank_paths(const io::Path& store, std::uint32_t rank) {
  char name[24];
  std::snprintf(name, sizeof name, "rank-%05u", rank);
  return {store / name};
}

std::vector<std::uint32_t> list_ranks(io::FileSystem& files, const io::Path& store) {
  std::vector<std::uint32_t> ranks;
  for (const auto& name : files.list(store)) {
    std::uint32_t rank = 0;
    if (!name.starts_with(kRankPrefix)) continue;
    const auto* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kRankPrefix.size(), end, rank);
    if (parsed.ec == std::errc() && parsed.ptr == end && rank_paths({}, rank).root == name) {
      ranks.push_back(rank);
    }
  }
  std::ranges::sort(ranks);
  return ranks;
}

StoreInfo read_store(io::FileSystem& files, const io::Path& store) {
  const auto status = files.status(store);
  if (!status) throw Error(ErrorCode::not_found, store.string() + ": there is no such folder");
  if (!status->is_directory || !files.status(store_json(store))) {
    throw Error(ErrorCode::incompatible,
                store.string() + " is not a gradstore store: it has no store.json");
  }
  const auto path = store_json(store).string();
  const auto json = ordered_json::parse(read_whole(files, path, kLongestStoreJson), nullptr, false);
  try {
    if (json.is_discarded() || json.at("format") != "gradstore store") {
      throw Error(ErrorCode::corrupt, path + ": not a gradstore store's description");
    }
    if (const auto version = json.at("version").get<std::int64_t>(); version != kVersion) {
      throw Error(ErrorCode::incompatible, path + ": directory format version " +
                                               std::to_string(version) +
                                               "; this gradstore reads version " +
                                               std::to_string(kVersion) + ": use a newer one");
    }
    StoreInfo info;
    if (!parse_uuid(json.at("uuid").get<std::string>(), info.uuid)) {
      throw Error(ErrorCode::corrupt, path + ": not a uuid");
    }
    info.run_name = json.at("run_name").get<std::string>();
    return info;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::corrupt, path + ": " + error.what());
  }
}

StoreInfo open_or_create_store(io::FileSystem& files, const io::Path& store,
                               const std::string& run_name) {
  create_directories(files, store);
  if (const auto status = files.status(store); status && !status->is_directory) {
    throw Error(ErrorCode::incompatible,
                store.string() + " is a file, not a folder: give an empty or a new folder");
  }
  if (!files.status(store_json(store))) {
    for (const auto& name : files.list(store)) {
      if (name.starts_with("store.json.")) continue;  // another rank's attempt, or a crashed one
      if (files.status(store_json(store))) break;  // another rank was faster: its folders are there
      if (name.starts_with(kRankPrefix)) {
        throw Error(ErrorCode::corrupt,
                    store_json(store).string() +
                        " is missing, and there are folders of ranks beside it. Nothing was "
                        "changed: put it back from a copy, or give an empty or a new folder");
      }
      throw Error(ErrorCode::incompatible,
                  store.string() + " is not a gradstore store, and not empty (it holds " +
                      printable(name) + "): give an empty or a new folder");
    }
    write_store(files, store, {new_uuid(), run_name});
  }
  return read_store(files, store);
}

}  // namespace gradstore::archive
