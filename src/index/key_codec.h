// Keys of the index. Integers are big-endian, so that the order of keys is the order of numbers.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/digest.h"
#include "gradstore/snapshot.h"

namespace gradstore::index {

/// Point of training at which snapshots are taken.
struct TrainingPoint {
  std::uint64_t step = 0;
  std::uint32_t micro_step = 0;
  Stage stage = Stage::post_reduce;
  auto operator<=>(const TrainingPoint&) const = default;
};

/// (step, micro-step, stage) -> snapshots: one key for each snapshot, no value.
struct StepKey {
  TrainingPoint point;
  SnapshotId id;
  auto operator<=>(const StepKey&) const = default;
};

/// Consecutive slices whose fingerprints share an entry: few, so that the history of one param is a
/// short range; some, so that a snapshot of many slices is not as many puts.
inline constexpr std::size_t kSlicesPerPage = 16;

/// Page of a snapshot's fingerprints. The snapshot comes last: the history of a page is one range.
struct PageKey {
  Digest128 layout;
  std::uint32_t page = 0;
  SnapshotId id;
  auto operator<=>(const PageKey&) const = default;
};

std::string encode(SnapshotId id);               ///< 16 bytes: snapshots, pins.
std::string encode(const Digest128& layout);     ///< 16 bytes: layouts.
std::string encode(const StepKey& key);          ///< 29 bytes: steps.
std::string encode(const TrainingPoint& point);  ///< 13 bytes: the prefix of its step keys.
std::string encode(const PageKey& key);          ///< 36 bytes: pages.

/// Errors of all: Error{corrupt} for another length, or an unknown stage.
SnapshotId decode_snapshot_key(std::string_view bytes);
StepKey decode_step_key(std::string_view bytes);
PageKey decode_page_key(std::string_view bytes);

/// A number of the meta family: 4 bytes.
std::string encode_number(std::uint32_t number);
std::uint32_t decode_number(
    std::string_view bytes);  ///< Errors: Error{corrupt} for another length.

}  // namespace gradstore::index
