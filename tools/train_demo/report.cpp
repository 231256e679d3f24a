#include "report.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace train_demo {
namespace {

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string megabytes(std::uint64_t bytes) {
  return format("%.1f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

Report::Report(std::filesystem::path directory, std::uint64_t steps,
               std::uint32_t accumulation_steps, Watched watched)
    : directory_(std::move(directory)),
      accumulation_steps_(accumulation_steps),
      watched_(std::move(watched)),
      progress_(steps, accumulation_steps),
      trajectory_(directory_ / kTrajectoryFile),
      start_(std::chrono::steady_clock::now()) {}

void Report::started(Position at, const std::optional<gradstore::SnapshotInfo>& from) {
  if (from) {
    progress_.say("resumed from snapshot " + to_string(from->id) + ": step " +
                  std::to_string(at.step) + ", micro-step " + std::to_string(at.micro_step) +
                  " of " + std::to_string(accumulation_steps_));
  } else {
    progress_.say("no snapshot in the store: training starts at the beginning");
  }
  trajectory_.started(at, watched_.gradients(), watched_.parameters());
}

void Report::micro_step(Position at, double loss) {
  // One micro-step after a snapshot: the backward pass has left the caches as cold as it found
  // them.
  if (std::exchange(snapshot_was_taken_, false)) {
    auto tensors = watched_.gradients();
    for (auto& [name, tensor] : watched_.state().tensors) tensors.push_back(std::move(tensor));
    stall_.time_memcpy(tensors);
  }
  ++micro_steps_;
  trajectory_.micro_step(at, loss, watched_.gradients());
  progress_.micro_step(at, loss);
}

void Report::snapshot_took(std::chrono::steady_clock::duration duration) {
  stall_.snapshot_took(std::chrono::duration<double, std::milli>(duration).count());
  snapshot_was_taken_ = true;
}

void Report::step(Position at, double mean_loss) {
  trajectory_.step(at, mean_loss, watched_.gradients(), watched_.parameters());
  progress_.step(at, mean_loss);
}

void Report::finished(Position at, const gradstore::SnapshotStore& store) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
  const auto parameters = watched_.parameters();
  write_tensors(directory_ / kParametersFile, parameters);

  std::uint64_t snapshots = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  for (const auto& info : store.list()) {
    ++snapshots;
    files += info.state_id == info.id ? 2u : 1u;
    bytes += info.file_bytes + (info.state_id == info.id ? info.state_file_bytes : 0);
  }
  const auto stall = stall_.summary();
  std::ofstream summary(directory_ / kSummaryFile, std::ios::trunc);
  summary << "saved: " << snapshots << " snapshots, " << megabytes(bytes) << " in " << files
          << " files\n"
          << format("training held up: %.2f ms per snapshot (median of %zu, longest %.2f ms)",
                    stall.snapshot_ms, stall.snapshots, stall.snapshot_ms_max);
  if (stall.memcpy_ms > 0) {
    summary << format("; a memcpy of the same %s takes %.2f ms: %.2f x",
                      megabytes(stall.bytes).c_str(), stall.memcpy_ms,
                      stall.snapshot_ms / stall.memcpy_ms);
  }
  summary << '\n';
  summary.close();
  if (!summary) throw std::runtime_error("cannot write the summary in " + directory_.string());

  trajectory_.finished(at, parameters);
  progress_.say(
      format("trained to step %llu in %.0f s (%.0f ms per micro-step)",
             static_cast<unsigned long long>(at.step), took.count(),
             1e3 * took.count() / static_cast<double>(std::max<std::uint64_t>(micro_steps_, 1))));
}

}  // namespace train_demo
