// Parts of JSON documents: names of any bytes, numbers that may not be finite.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

#include "gradstore/snapshot.h"
#include "index/snapshot_row.h"
#include "kernels/fingerprint.h"

namespace gradstore::inspect {

using Json = nlohmann::ordered_json;

/// Of every document. Grows when a member changes its meaning or goes away.
inline constexpr int kSchemaVersion = 1;

/// {"schema_version", "command"}, to be filled.
Json document(const std::string& command);

/// With only ASCII in it, so that no terminal reads anything into a name.
void print(std::ostream& out, const Json& document);

/// A finite number, else "nan", "inf", "-inf".
Json number(double value);

/// Text of ours: bytes that are no UTF-8 appear as \xHH.
std::string text(std::string_view bytes);

/// Puts `name` under "name": as it is if it is UTF-8; else as text() gives it, and its true bytes
/// under "name_base64".
void put_name(Json& object, std::string_view name);

std::string base64(std::string_view bytes);

/// A row: id, place in the training, state, sizes.
Json snapshot_json(const index::SnapshotRow& row);

/// Statistics and digest of a slice.
Json fingerprint_json(const kernels::SliceFingerprint& fingerprint);

}  // namespace gradstore::inspect
