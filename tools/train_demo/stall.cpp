#include "stall.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace train_demo {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StallMeter::StallMeter() = default;
StallMeter::~StallMeter() = default;

void StallMeter::snapshot_took(double milliseconds) { snapshots_ms_.push_back(milliseconds); }

void StallMeter::time_memcpy(const std::vector<at::Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  if (bytes > target_bytes_) {
    target_ = std::make_unique<std::byte[]>(bytes);  // Touches every page: it fills with zeros.
    target_bytes_ = bytes;
    memcpys_ms_.clear();  // Of fewer bytes: the optimizer has no state before its first step.
  }
  const auto start = std::chrono::steady_clock::now();
  std::byte* to = target_.get();
  for (const at::Tensor& tensor : tensors) {
    std::memcpy(to, tensor.const_data_ptr(), tensor.nbytes());
    to += tensor.nbytes();
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  memcpys_ms_.push_back(took.count());
}

StallMeter::Summary StallMeter::summary() const {
  Summary summary;
  summary.snapshots = snapshots_ms_.size();
  summary.snapshot_ms = median(snapshots_ms_);
  if (!snapshots_ms_.empty()) {
    summary.snapshot_ms_max = *std::max_element(snapshots_ms_.begin(), snapshots_ms_.end());
  }
  summary.memcpy_ms = median(memcpys_ms_);
  summary.bytes = target_bytes_;
  return summary;
}

}  // namespace train_demo
