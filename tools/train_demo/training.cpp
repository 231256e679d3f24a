#include "training.h"

#include <memory>
#include <utility>

namespace train_demo {
namespace {

constexpr std::int64_t kRows = 12;  // Per micro-step.

}  // namespace

Training make_training(const std::filesystem::path& file) {
  ModelShape shape;
  TextData text(file, kRows, shape.length);
  shape.vocabulary = text.vocabulary_size();
  CharTransformer model(shape);

  std::vector<Param> params;
  std::vector<at::Tensor> decayed, not_decayed;
  for (const auto& named : model.named_parameters()) {
    const bool decays = named.value().dim() >= 2;
    (decays ? decayed : not_decayed).push_back(named.value());
    params.push_back({.id = static_cast<std::int64_t>(params.size()),
                      .group = decays ? 0 : 1,
                      .name = named.key(),
                      .tensor = named.value()});
  }
  using Options = torch::optim::AdamWOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<Options>(Options(1e-3).weight_decay(0.1)));
  groups.emplace_back(not_decayed, std::make_unique<Options>(Options(1e-3).weight_decay(0)));
  return {std::move(text), std::move(model), std::move(params), torch::optim::AdamW(groups)};
}

Watched watched(const Training& training, const gradstore::GradientStore& gradients,
                std::function<gradstore::CompanionState()> state) {
  auto all_gradients = [&gradients] {
    auto tensors = gradients.get_working_grads_by_group_id(0);
    for (auto& grad : gradients.get_working_grads_by_group_id(1)) tensors.push_back(grad);
    return tensors;
  };
  auto all_parameters = [&training] {
    std::vector<at::Tensor> tensors;
    for (const Param& param : training.params) tensors.push_back(param.tensor);
    return tensors;
  };
  return {.gradients = all_gradients, .parameters = all_parameters, .state = std::move(state)};
}

void break_resume(LeaveOut part, Training& training, gradstore::GradientStore& gradients) {
  switch (part) {
    case LeaveOut::nothing: break;
    case LeaveOut::gradients: gradients.reset_all_gradients(); break;
    case LeaveOut::rng: at::manual_seed(1); break;
    case LeaveOut::optimizer: training.optimizer.state().clear(); break;
  }
}

}  // namespace train_demo
