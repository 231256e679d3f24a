// Trains the character transformer, with snapshots, from wherever the last run was stopped.
#pragma once

#include <cstdint>
#include <filesystem>

namespace train_demo {

/// What a resume leaves out, to show that the comparison of two runs notices. For tests.
enum class LeaveOut { nothing, gradients, rng, optimizer };

struct TrainingOptions {
  std::filesystem::path directory;  ///< Of the run: store, trajectory, final parameters, summary.
  std::filesystem::path text;       ///< What to train on.
  std::uint64_t steps = 24;         ///< Optimizer steps.
  LeaveOut leave_out = LeaveOut::nothing;
};

/// Errors: gradstore::Error from the store; c10::Error from LibTorch; std::runtime_error a file.
void train(const TrainingOptions& options);

/// Name of the store in a run's directory.
inline constexpr const char* kStoreDirectory = "store";

}  // namespace train_demo
