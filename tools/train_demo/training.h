// What the demo trains: text, model and optimizer.
#pragma once

#include <torch/optim/adamw.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "model.h"
#include "report.h"
#include "text_data.h"
#include "training_loop.h"

namespace train_demo {

struct Param {
  std::int64_t id;     ///< Unique in this process; on disk a param goes by its name.
  std::int64_t group;  ///< 0: with weight decay, 1: without.
  std::string name;
  at::Tensor tensor;
};

/// All that training consists of, besides gradients and LibTorch's generator of random numbers.
struct Training {
  TextData text;
  CharTransformer model;
  std::vector<Param> params;
  torch::optim::AdamW optimizer;
  double window_loss = 0;  ///< Summed over this accumulation window.
};

/// Draws the initial parameters from LibTorch's CPU generator.
Training make_training(const std::filesystem::path& text);

/// What a report of this training looks at. `training` and `gradients` have to outlive it.
Watched watched(const Training& training, const gradstore::GradientStore& gradients,
                std::function<gradstore::CompanionState()> state);

/// Undoes a part of a resume. For tests: the comparison of two runs has to notice.
void break_resume(LeaveOut part, Training& training, gradstore::GradientStore& gradients);

}  // namespace train_demo
