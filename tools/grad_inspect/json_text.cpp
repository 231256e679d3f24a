#include "json_text.h"

#include <cmath>

#include "archive/manifest.h"
#include "core/digest.h"
#include "core/utf8.h"
#include "human_text.h"

namespace gradstore::inspect {

Json document(const std::string& command) {
  return {{"schema_version", kSchemaVersion}, {"command", command}};
}

void print(std::ostream& out, const Json& document) {
  out << document.dump(2, ' ', /*ensure_ascii=*/true) << '\n';
}

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string text(std::string_view bytes) {
  return is_utf8(bytes) ? std::string(bytes) : visible_text(bytes);
}

void put_name(Json& object, std::string_view name) {
  object["name"] = text(name);
  if (!is_utf8(name)) object["name_base64"] = base64(name);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto group = bytes.substr(at, 3);
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < group.size() ? static_cast<unsigned char>(group[i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      encoded += i <= group.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return encoded;
}

Json snapshot_json(const index::SnapshotRow& row) {
  const auto& info = row.info;
  Json json;
  json["id"] = to_string(info.id);
  json["attempt"] = info.id.attempt;
  json["sequence"] = info.id.sequence;
  json["rank"] = info.rank;
  json["world_size"] = info.world_size;
  json["status"] = name_of(info.state);
  json["pinned"] = info.pinned;
  json["step"] = info.metadata.step;
  json["micro_step"] = info.metadata.micro_step;
  json["accumulation_steps"] = info.metadata.accumulation_steps;
  json["stage"] = name_of(info.metadata.stage);
  json["loss_scale"] = number(info.metadata.loss_scale);
  json["created"] = archive::to_iso8601(info.created_unix_ns);
  json["created_unix_ns"] = info.created_unix_ns;
  json["groups"] = info.num_groups;
  json["params"] = info.num_params;
  json["slices"] = info.num_slices;
  json["gradient_bytes"] = info.gradient_bytes;
  json["file_bytes"] = info.file_bytes;
  json["state_snapshot"] = info.state_id ? Json(to_string(*info.state_id)) : Json(nullptr);
  json["state_file_bytes"] = info.state_file_bytes;
  json["layout_digest"] = to_string(row.layout_digest);
  json["root_digest"] = to_string(row.root_digest);
  return json;
}

Json fingerprint_json(const kernels::SliceFingerprint& fingerprint) {
  const auto& s = fingerprint.statistics;
  Json json;
  json["digest"] = to_string(fingerprint.digest);
  json["count"] = s.count;
  json["nan"] = s.nan;
  json["positive_infinity"] = s.positive_infinity;
  json["negative_infinity"] = s.negative_infinity;
  json["zero"] = s.zero;
  json["min"] = number(s.min);
  json["max"] = number(s.max);
  json["absmax"] = number(s.absmax);
  json["sum"] = number(s.sum);
  json["sum_of_squares"] = number(s.sum_of_squares);
  json["norm"] = number(std::sqrt(s.sum_of_squares));
  return json;
}

}  // namespace gradstore::inspect
