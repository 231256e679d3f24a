// What a run did, on file, so that two runs can be compared bit for bit.
//
// A line is written whole, when what it tells has happened, so that a killed run leaves all that it
// had done. Fields are separated by spaces, "-" where one does not apply:
//
//   kind      step  micro-step  loss  gradients  parameters
//   started   13    4           -     <digest>   <digest>    once per process: where it goes on
//   micro     13    5           2.51  <digest>   -           after a backward pass was accumulated
//   step      13    8           2.49  <digest>   <digest>    after the optimizer; gradients clipped
//   finished  24    0           -     -          <digest>    all steps done, parameters written
//
// Digests are XXH3-128 over the bytes of all tensors, in order. A loss has 9 digits, which tell any
// two float32 apart.
#pragma once

#include <ATen/core/ATen_fwd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "position.h"

namespace train_demo {

/// Appends to a run's trajectory file.
class TrajectoryWriter {
 public:
  /// Errors: std::runtime_error the file cannot be opened. Writing throws the same when it fails.
  explicit TrajectoryWriter(const std::filesystem::path& file);
  ~TrajectoryWriter();
  TrajectoryWriter(const TrajectoryWriter&) = delete;
  TrajectoryWriter& operator=(const TrajectoryWriter&) = delete;

  void started(Position at, const std::vector<at::Tensor>& gradients,
               const std::vector<at::Tensor>& parameters);
  void micro_step(Position at, double loss, const std::vector<at::Tensor>& gradients);
  void step(Position at, double loss, const std::vector<at::Tensor>& gradients,
            const std::vector<at::Tensor>& parameters);
  void finished(Position at, const std::vector<at::Tensor>& parameters);

 private:
  void write(const std::string& kind, Position at, std::optional<double> loss,
             const std::vector<at::Tensor>* gradients, const std::vector<at::Tensor>* parameters);

  int descriptor_;
};

/// The bytes of all tensors, one after the other. Errors: std::runtime_error it cannot be written.
void write_tensors(const std::filesystem::path& file, const std::vector<at::Tensor>& tensors);

/// What a comparison looked at, and where it first found a difference.
struct Comparison {
  Position resumed_at;
  std::uint64_t gradient_digests = 0;
  std::uint64_t parameter_digests = 0;
  std::uint64_t losses = 0;
  std::uint64_t parameter_bytes = 0;            ///< Of the final parameters.
  std::optional<std::string> first_difference;  ///< Nothing when all is equal, bit for bit.
};

/// Compares all that the last process of run `resumed` did with what run `reference` did from the
/// same point on: every gradient, loss and parameter digest, and the bytes of the final parameters.
///
/// Errors: std::runtime_error there is nothing to compare: a file is missing or damaged, the
///         reference was itself interrupted, `resumed` did not finish or began at the beginning.
Comparison compare_runs(const std::filesystem::path& reference,
                        const std::filesystem::path& resumed);

/// Names of the files in a run's directory.
inline constexpr const char* kTrajectoryFile = "trajectory.txt";
inline constexpr const char* kParametersFile = "parameters.bin";

}  // namespace train_demo
