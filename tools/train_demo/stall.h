// How long snapshots hold up training, beside a memcpy of the same bytes in the same process.
#pragma once

#include <ATen/core/ATen_fwd.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace train_demo {

class StallMeter {
 public:
  StallMeter();
  ~StallMeter();

  /// A call of SnapshotStore::snapshot() that returned after `milliseconds`.
  void snapshot_took(double milliseconds);

  /// Copies all `tensors` into memory of its own, which was touched before, on one thread, and
  /// takes the time. To be called where a snapshot could have been, so that caches are as cold.
  void time_memcpy(const std::vector<at::Tensor>& tensors);

  struct Summary {
    std::size_t snapshots = 0;
    double snapshot_ms = 0;  ///< Median.
    double snapshot_ms_max = 0;
    double memcpy_ms = 0;   ///< Median; 0 when none was timed.
    std::size_t bytes = 0;  ///< Of the largest memcpy.
  };
  Summary summary() const;

 private:
  std::vector<double> snapshots_ms_;
  std::vector<double> memcpys_ms_;
  std::unique_ptr<std::byte[]> target_;
  std::size_t target_bytes_ = 0;
};

}  // namespace train_demo
