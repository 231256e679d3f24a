// The example: gradients are accumulated through a GradientStore, snapshots are taken on the way,
// and a resume goes on with the very bits that an uninterrupted run would have had.
#include "training_loop.h"

#include <ATen/Parallel.h>
#include <torch/nn/utils/clip_grad.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "report.h"
#include "training.h"

namespace train_demo {
namespace {

constexpr std::uint32_t kAccumulationSteps = 8;
constexpr std::uint64_t kSnapshotEvery = 3;  // Micro-steps; so most snapshots fall inside a window.
constexpr int kThreads = 1;                  // Fixed: other numbers add in another order.

// Moves what backward() left in the params into the store: the window's first gradient is kept,
// later ones are added to it.
void accumulate(std::vector<Param>& params, gradstore::GradientStore& gradients) {
  for (Param& param : params) {
    at::Tensor grad = std::exchange(param.tensor.mutable_grad(), {});
    if (gradients.get_partitioned_gradients_by_param_id(param.group, param.id).empty()) {
      gradients.append_gradients_by_param_id(std::move(grad), param.group, param.id);
    } else {
      gradients.add_gradients_by_param_id(grad, /*slice_index=*/0, param.group, param.id);
    }
  }
}

void optimizer_step(Training& training, gradstore::GradientStore& gradients) {
  std::vector<at::Tensor> tensors;
  for (Param& param : training.params) {
    param.tensor.mutable_grad() = gradients.get_working_grad_by_param_id(param.id).value();
    tensors.push_back(param.tensor);
  }
  torch::nn::utils::clip_grad_norm_(tensors, /*max_norm=*/1.0);
  training.optimizer.step();
  training.optimizer.zero_grad();
}

// What a resume needs besides gradients. Nothing is copied here; snapshot() copies.
gradstore::CompanionState state_of(Training& training) {
  gradstore::CompanionState state;
  std::int64_t adamw_steps = 0;
  for (const Param& param : training.params) {
    state.tensors.emplace_back("parameters/" + param.name, param.tensor.detach());
    const auto found = training.optimizer.state().find(param.tensor.unsafeGetTensorImpl());
    if (found == training.optimizer.state().end()) continue;  // Before the first step.
    auto& adamw = static_cast<torch::optim::AdamWParamState&>(*found->second);
    state.tensors.emplace_back("adamw/exp_avg/" + param.name, adamw.exp_avg());
    state.tensors.emplace_back("adamw/exp_avg_sq/" + param.name, adamw.exp_avg_sq());
    adamw_steps = adamw.step();
  }
  state.tensors.emplace_back("rng/cpu", at::globalContext().defaultGenerator(at::kCPU).get_state());
  state.json = nlohmann::json{{"adamw_steps", adamw_steps},
                              {"text", training.text.digest()},
                              {"text_position", training.text.position()},
                              {"window_loss", training.window_loss}}
                   .dump();
  return state;
}

void load_state(const gradstore::CompanionState& state, Training& training) {
  const auto json = nlohmann::json::parse(state.json);
  if (json.at("text") != training.text.digest()) {
    throw std::runtime_error("the store was made with another text");
  }
  training.text.set_position(json.at("text_position").get<std::int64_t>());
  training.window_loss = json.at("window_loss").get<double>();

  const at::NoGradGuard no_grad;
  const auto adamw_steps = json.at("adamw_steps").get<std::int64_t>();
  for (Param& param : training.params) {
    param.tensor.copy_(state.at("parameters/" + param.name));
    if (adamw_steps == 0) continue;
    auto adamw = std::make_unique<torch::optim::AdamWParamState>();
    adamw->step(adamw_steps);
    adamw->exp_avg(state.at("adamw/exp_avg/" + param.name));
    adamw->exp_avg_sq(state.at("adamw/exp_avg_sq/" + param.name));
    training.optimizer.state()[param.tensor.unsafeGetTensorImpl()] = std::move(adamw);
  }
  // Last: anything above might have drawn from it.
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_state(state.at("rng/cpu"));
}

}  // namespace

void train(const TrainingOptions& options) {
  at::set_num_threads(kThreads);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::manual_seed(1);
  std::filesystem::create_directories(options.directory);
  Training training = make_training(options.text);

  // [readme-begin]
  gradstore::GradientStore gradients;
  for (const Param& param : training.params) {
    gradients.register_param(param.id, param.name, param.group, param.tensor);
  }
  const auto store = gradstore::SnapshotStore::open(options.directory / kStoreDirectory);

  Position at;  // {step, micro_step}
  const auto last = store->latest_good();
  if (last) {
    store->restore(last->id, gradients);
    load_state(store->read_state(last->id), training);  // Parameters, AdamW, text, RNG.
    at = {last->metadata.step, last->metadata.micro_step};
  }
  // [readme-end]
  if (last) break_resume(options.leave_out, training, gradients);
  Report report(options.directory, options.steps, kAccumulationSteps,
                watched(training, gradients, [&] { return state_of(training); }));
  report.started(at, last);

  // [readme-begin]

  std::optional<gradstore::Ticket> ticket;
  for (; at.step < options.steps; at = {at.step + 1, 0}) {
    while (at.micro_step < kAccumulationSteps) {
      const Batch batch = training.text.next_batch();
      const at::Tensor loss = training.model.loss(batch.inputs, batch.targets);
      (loss / static_cast<double>(kAccumulationSteps)).backward();
      accumulate(training.params, gradients);
      training.window_loss += loss.item<double>();
      ++at.micro_step;
      report.micro_step(at, loss.item<double>());

      if ((at.step * kAccumulationSteps + at.micro_step) % kSnapshotEvery != 0) continue;
      const auto begin = std::chrono::steady_clock::now();
      ticket = store->snapshot(
          gradients,  // Returns when all is copied; the disk comes later.
          {.step = at.step, .micro_step = at.micro_step, .accumulation_steps = kAccumulationSteps},
          state_of(training));
      report.snapshot_took(std::chrono::steady_clock::now() - begin);
    }
    optimizer_step(training, gradients);
    report.step(at, training.window_loss / kAccumulationSteps);
    gradients.reset_all_gradients();
    training.window_loss = 0;
  }
  if (ticket) ticket->wait();
  // [readme-end]
  report.finished(at, *store);
  store->close();
}

}  // namespace train_demo
