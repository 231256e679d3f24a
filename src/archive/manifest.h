// The manifest: what a person or a script wants to know of a file, as JSON inside it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gradstore/snapshot.h"

namespace gradstore::archive {

/// How the in-memory store was set up; restore() insists on the same.
struct GradientStoreSetup {
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  bool partition_grad = false;
  bool operator==(const GradientStoreSetup&) const = default;
};

struct Manifest {
  std::string store_uuid;  ///< Text form, for people; the seal holds the binding one.
  std::string run_name;
  SnapshotId id;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  SnapshotMetadata metadata;  ///< user_json of a state file: the companion state's JSON.
  std::int64_t created_unix_ns = 0;
  std::optional<SnapshotId> state_id;
  GradientStoreSetup setup;
  /// Slices (by number) whose memory overlapped without being the same: restored, they are apart.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> overlapping_slices;
  std::string writer;  ///< Program versions, e.g. "gradstore 0.1.0, torch 2.11.0".
};

/// JSON text, not padded. Errors: Error{invalid_argument} when user_json is not JSON.
std::string encode(const Manifest& manifest);

/// Takes the padded slot. Errors: Error{corrupt}; Error{incompatible} for a newer version.
Manifest decode_manifest(std::span<const std::byte> slot);

/// "Snapshot 0001-00000042 (step 7, micro-step 3)": how messages name it.
std::string describe_snapshot(const Manifest& manifest);

/// "2026-12-01T02:29:24.123456789Z"
std::string to_iso8601(std::int64_t unix_ns);

}  // namespace gradstore::archive
