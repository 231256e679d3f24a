#include "archive/manifest.h"

#include <charconv>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "gradstore/error.h"

namespace gradstore::archive {

namespace {

using nlohmann::ordered_json;

constexpr int kVersion = 1;

ordered_json parse_user_json(const std::string& text) {
  auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    throw Error(ErrorCode::invalid_argument,
                "The JSON given with a snapshot is not valid JSON: " + text.substr(0, 80));
  }
  return json;
}

// Shortest text that reads back as the same bits, whatever the locale.
std::string to_text(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

double to_double(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::corrupt, "Manifest: not a number: " + text.substr(0, 40));
  }
  return value;
}

SnapshotId required_id(const ordered_json& json) {
  const auto id = parse_snapshot_id(json.get<std::string>());
  if (!id) throw Error(ErrorCode::corrupt, "Manifest: not a snapshot id");
  return *id;
}

}  // namespace

std::string to_iso8601(std::int64_t unix_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  auto seconds = unix_ns / kSecond;
  auto rest = unix_ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[96];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<long long>(rest));
  return text;
}

std::string describe_snapshot(const Manifest& manifest) {
  return "Snapshot " + to_string(manifest.id) + " (step " + std::to_string(manifest.metadata.step) +
         ", micro-step " + std::to_string(manifest.metadata.micro_step) + ")";
}

std::string encode(const Manifest& m) {
  ordered_json json;
  json["format"] = "gradstore manifest";
  json["version"] = kVersion;
  json["snapshot"] = to_string(m.id);
  json["store_uuid"] = m.store_uuid;
  json["run_name"] = m.run_name;
  json["rank"] = m.rank;
  json["world_size"] = m.world_size;
  json["step"] = m.metadata.step;
  json["micro_step"] = m.metadata.micro_step;
  json["accumulation_steps"] = m.metadata.accumulation_steps;
  json["stage"] = name_of(m.metadata.stage);
  // As text with all digits: JSON has no infinity, and a loss scale may overflow to one.
  json["loss_scale"] = to_text(m.metadata.loss_scale);
  json["created"] = to_iso8601(m.created_unix_ns);
  json["created_unix_ns"] = m.created_unix_ns;
  json["state"] = m.state_id ? ordered_json(to_string(*m.state_id)) : ordered_json(nullptr);
  json["gradient_store"] = {{"world_size", m.setup.world_size},
                            {"local_rank", m.setup.local_rank},
                            {"partition_grad", m.setup.partition_grad}};
  json["overlapping_slices"] = m.overlapping_slices;
  json["writer"] = m.writer;
  json["user"] = parse_user_json(m.metadata.user_json);
  // Names in here are ours or the user's JSON, which was parsed: valid UTF-8, except the run name.
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

Manifest decode_manifest(std::span<const std::byte> slot) {
  const auto* begin = reinterpret_cast<const char*>(slot.data());
  const auto json = ordered_json::parse(begin, begin + slot.size(), nullptr, false);
  try {
    if (json.is_discarded() || json.at("format") != "gradstore manifest") {
      throw Error(ErrorCode::corrupt, "Manifest: not a manifest");
    }
    if (const auto version = json.at("version").get<std::int64_t>(); version != kVersion) {
      throw Error(ErrorCode::incompatible, "Manifest: version " + std::to_string(version) +
                                               "; this gradstore reads version " +
                                               std::to_string(kVersion) + ": use a newer one");
    }
    Manifest m;
    m.id = required_id(json.at("snapshot"));
    m.store_uuid = json.at("store_uuid").get<std::string>();
    m.run_name = json.at("run_name").get<std::string>();
    m.rank = json.at("rank").get<std::uint32_t>();
    m.world_size = json.at("world_size").get<std::uint32_t>();
    m.metadata.step = json.at("step").get<std::uint64_t>();
    m.metadata.micro_step = json.at("micro_step").get<std::uint32_t>();
    m.metadata.accumulation_steps = json.at("accumulation_steps").get<std::uint32_t>();
    const auto stage = parse_stage(json.at("stage").get<std::string>());
    if (!stage) throw Error(ErrorCode::corrupt, "Manifest: unknown stage");
    m.metadata.stage = *stage;
    m.metadata.loss_scale = to_double(json.at("loss_scale").get<std::string>());
    m.metadata.user_json = json.at("user").dump();
    m.created_unix_ns = json.at("created_unix_ns").get<std::int64_t>();
    if (!json.at("state").is_null()) m.state_id = required_id(json.at("state"));
    const auto& setup = json.at("gradient_store");
    m.setup = {setup.at("world_size").get<std::int64_t>(),
               setup.at("local_rank").get<std::int64_t>(), setup.at("partition_grad").get<bool>()};
    m.overlapping_slices = json.at("overlapping_slices").get<decltype(m.overlapping_slices)>();
    m.writer = json.at("writer").get<std::string>();
    return m;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::corrupt, std::string("Manifest: ") + error.what());
  }
}

}  // namespace gradstore::archive
