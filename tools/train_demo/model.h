// A small transformer that predicts the next character.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace train_demo {

struct ModelShape {
  std::int64_t vocabulary = 0;
  std::int64_t length = 96;  ///< Characters that it sees at most.
  std::int64_t width = 128;  ///< A multiple of `heads`.
  std::int64_t heads = 4;
  std::int64_t layers = 5;
  double dropout = 0.1;  ///< Drawn from LibTorch's CPU generator.
};

/// Decoder-only, with normalisation before each sublayer and learned positions.
class CharTransformer : public torch::nn::Module {
 public:
  /// Draws the initial parameters from LibTorch's CPU generator.
  explicit CharTransformer(const ModelShape& shape);

  /// Mean cross-entropy, in nats per character. Shape: `inputs` and `targets` [rows, length],
  /// int64; the result has no dimension. Draws dropout masks: this is a training model, never
  /// evaluated.
  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& targets) const;

 private:
  struct Affine {
    at::Tensor weight;
    at::Tensor bias;
  };
  struct Layer {
    Affine attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_out;
  };

  Affine make_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs);
  Affine make_norm(const std::string& name);
  at::Tensor normalise(const Affine& norm, const at::Tensor& x) const;
  at::Tensor attend(const Layer& layer, const at::Tensor& x) const;

  ModelShape shape_;
  at::Tensor token_embedding_;
  at::Tensor position_embedding_;
  std::vector<Layer> layers_;
  Affine final_norm_;
  Affine head_;
};

}  // namespace train_demo
