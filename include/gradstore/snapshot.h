// What a snapshot is called and what is known about it.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gradstore {

/// Names one snapshot of a rank for good: ids are never reused. Ordered by (attempt, sequence).
struct SnapshotId {
  std::uint64_t attempt = 0;   ///< How often the run was started, from 1.
  std::uint64_t sequence = 0;  ///< Counts the snapshots of an attempt, from 1.
  auto operator<=>(const SnapshotId&) const = default;
};

/// "0002-00000042" for attempt 2, sequence 42: the stem of the snapshot's file names.
std::string to_string(SnapshotId id);

/// Inverse of to_string(SnapshotId); nothing when `text` is not exactly such a name.
std::optional<SnapshotId> parse_snapshot_id(std::string_view text) noexcept;

/// Where in the training step a gradient was taken. The values are part of the disk format.
enum class Stage : std::uint8_t {
  pre_reduce = 0,   ///< This rank's own gradient, before any reduction over ranks.
  post_reduce = 1,  ///< After reduction over ranks, still carrying the loss scale.
  unscaled = 2,     ///< After removing the loss scale.
  clipped = 3,      ///< As the optimizer sees it: unscaled and clipped.
};

std::string_view name_of(Stage stage) noexcept;  ///< "pre_reduce", ...; "invalid" outside the enum.
std::optional<Stage> parse_stage(std::string_view text) noexcept;
std::optional<Stage> stage_from_code(std::uint8_t code) noexcept;

/// What the training loop says about a snapshot. Copied when snapshot() is called.
struct SnapshotMetadata {
  std::uint64_t step = 0;        ///< Optimizer step, from 0.
  std::uint32_t micro_step = 0;  ///< Backward passes done in this accumulation window, 0..K.
  std::uint32_t accumulation_steps = 1;  ///< K: backward passes per optimizer step.
  Stage stage = Stage::post_reduce;
  double loss_scale = 1.0;       ///< Factor on the loss that the stored gradients still carry.
  std::string user_json = "{}";  ///< Any JSON object of the caller's, e.g. the data position.
};

/// State of a snapshot as the index and the files tell it. Disk values.
enum class SnapshotState : std::uint8_t {
  committed = 1,  ///< Row and files are there.
  deleting = 2,   ///< Being removed; open() finishes it.
  data_gone = 3,  ///< Files removed by retention; statistics remain.
  damaged = 4,    ///< Row is there, a file is missing or short. Never stored; found by looking.
};

std::string_view name_of(SnapshotState state) noexcept;

/// One row of the index.
struct SnapshotInfo {
  SnapshotId id;
  SnapshotState state = SnapshotState::committed;
  SnapshotMetadata metadata;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::int64_t created_unix_ns = 0;  ///< Wall clock at snapshot(), UTC.
  std::uint64_t num_groups = 0;
  std::uint64_t num_params = 0;
  std::uint64_t num_slices = 0;
  std::uint64_t gradient_bytes = 0;  ///< Logical bytes of all slices, without padding of the file.
  std::uint64_t file_bytes = 0;      ///< Length of the gradient file.
  std::optional<SnapshotId> state_id;  ///< Whose companion state file belongs to it; none without.
  std::uint64_t state_file_bytes = 0;
  bool pinned = false;  ///< Kept by retention whatever its age.
};

}  // namespace gradstore
