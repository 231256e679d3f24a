// All that the demo tells about a run: progress, the trajectory for the comparison, and a summary.
#pragma once

#include <ATen/core/ATen_fwd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "gradstore/snapshot_store.h"
#include "position.h"
#include "progress.h"
#include "stall.h"
#include "trajectory.h"

namespace train_demo {

/// How a report gets at what it looks at. Asked at each event, so that it holds no tensor.
struct Watched {
  std::function<std::vector<at::Tensor>()> gradients;  ///< Accumulated so far.
  std::function<std::vector<at::Tensor>()> parameters;
  std::function<gradstore::CompanionState()> state;  ///< What a snapshot holds besides.
};

class Report {
 public:
  /// Writes trajectory, final parameters and summary into `directory`.
  Report(std::filesystem::path directory, std::uint64_t steps, std::uint32_t accumulation_steps,
         Watched watched);

  void started(Position at, const std::optional<gradstore::SnapshotInfo>& from);
  void micro_step(Position at, double loss);
  void snapshot_took(std::chrono::steady_clock::duration duration);
  void step(Position at, double mean_loss);
  void finished(Position at, const gradstore::SnapshotStore& store);

 private:
  std::filesystem::path directory_;
  std::uint32_t accumulation_steps_;
  Watched watched_;
  Progress progress_;
  TrajectoryWriter trajectory_;
  StallMeter stall_;
  bool snapshot_was_taken_ = false;
  std::uint64_t micro_steps_ = 0;
  std::chrono::steady_clock::time_point start_;
};

/// Name of the summary in a run's directory: two lines, what was saved and what it cost.
inline constexpr const char* kSummaryFile = "summary.txt";

}  // namespace train_demo
