// Gradients and companion state that are easy to tell from others, for tests of whole snapshots.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <string>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"

namespace gradstore::testing {

/// Two params in one group and a state, all made from one number.
class SampleGradients {
 public:
  explicit SampleGradients(double value = 0, std::int64_t elements = 1000) : elements_(elements) {
    gradients.register_param(1, "weight", 0, at::zeros({elements}));
    gradients.register_param(2, "bias", 0, at::zeros({7}));
    gradients.append_gradients_by_param_id(weight(value), 0, 1);
    gradients.append_gradients_by_param_id(at::zeros({7}) + value, 0, 2);
  }

  CompanionState state(double value) const {
    return {{{"moment", moment(value)}}, "{\"value\":" + std::to_string(value) + "}"};
  }

  /// Does snapshot `id` hold exactly what SampleGradients(value), and its state if it has one,
  /// hold?
  bool whole(const SnapshotStore& store, SnapshotId id, double value) const {
    SampleGradients restored(-1, elements_);
    store.restore(id, restored.gradients);
    bool same =
        at::equal(*restored.gradients.get_working_grad_by_param_id(1), weight(value)) &&
        at::equal(*restored.gradients.get_working_grad_by_param_id(2), at::zeros({7}) + value);
    for (const auto& info : store.list()) {
      if (info.id == id && info.state_id) {
        same = same && at::equal(store.read_state(id).at("moment"), moment(value));
      }
    }
    return same;
  }

  GradientStore gradients;

 private:
  at::Tensor weight(double value) const { return at::arange(elements_, at::kFloat) + value; }
  // Longer than the gradients, so that the files' lengths differ.
  at::Tensor moment(double value) const { return at::arange(3 * elements_, at::kFloat) - value; }
  std::int64_t elements_;
};

}  // namespace gradstore::testing
