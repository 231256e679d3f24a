#include "model.h"

#include <cmath>
#include <string>

namespace train_demo {

CharTransformer::CharTransformer(const ModelShape& shape) : shape_(shape) {
  const std::int64_t width = shape.width;
  token_embedding_ =
      register_parameter("token_embedding", 0.02 * at::randn({shape.vocabulary, width}));
  position_embedding_ =
      register_parameter("position_embedding", 0.02 * at::randn({shape.length, width}));
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    // Dots are not allowed in a parameter's own name.
    const std::string prefix = "layer" + std::to_string(i) + "_";
    layers_.push_back({.attention_norm = make_norm(prefix + "attention_norm"),
                       .attention_in = make_linear(prefix + "attention_in", width, 3 * width),
                       .attention_out = make_linear(prefix + "attention_out", width, width),
                       .mlp_norm = make_norm(prefix + "mlp_norm"),
                       .mlp_in = make_linear(prefix + "mlp_in", width, 4 * width),
                       .mlp_out = make_linear(prefix + "mlp_out", 4 * width, width)});
  }
  final_norm_ = make_norm("final_norm");
  head_ = make_linear("head", width, shape.vocabulary);
}

CharTransformer::Affine CharTransformer::make_linear(const std::string& name, std::int64_t inputs,
                                                     std::int64_t outputs) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(inputs));
  return {.weight = register_parameter(name + "_weight", scale * at::randn({outputs, inputs})),
          .bias = register_parameter(name + "_bias", at::zeros({outputs}))};
}

CharTransformer::Affine CharTransformer::make_norm(const std::string& name) {
  return {.weight = register_parameter(name + "_weight", at::ones({shape_.width})),
          .bias = register_parameter(name + "_bias", at::zeros({shape_.width}))};
}

at::Tensor CharTransformer::normalise(const Affine& norm, const at::Tensor& x) const {
  return at::layer_norm(x, {shape_.width}, norm.weight, norm.bias);
}

at::Tensor CharTransformer::attend(const Layer& layer, const at::Tensor& x) const {
  const std::int64_t rows = x.size(0);
  const std::int64_t length = x.size(1);
  const auto by_head = [&](const at::Tensor& t) {
    return t.view({rows, length, shape_.heads, shape_.width / shape_.heads}).transpose(1, 2);
  };
  const auto parts = at::linear(x, layer.attention_in.weight, layer.attention_in.bias).chunk(3, -1);
  const at::Tensor mixed =
      at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                       /*attn_mask=*/{}, shape_.dropout, /*is_causal=*/true);
  return at::linear(mixed.transpose(1, 2).reshape({rows, length, shape_.width}),
                    layer.attention_out.weight, layer.attention_out.bias);
}

at::Tensor CharTransformer::loss(const at::Tensor& inputs, const at::Tensor& targets) const {
  const auto dropped = [&](const at::Tensor& t) { return at::dropout(t, shape_.dropout, true); };

  at::Tensor x =
      at::embedding(token_embedding_, inputs) + position_embedding_.slice(0, 0, inputs.size(1));
  x = dropped(x);
  for (const Layer& layer : layers_) {
    x = x + dropped(attend(layer, normalise(layer.attention_norm, x)));
    const at::Tensor hidden =
        at::gelu(at::linear(normalise(layer.mlp_norm, x), layer.mlp_in.weight, layer.mlp_in.bias));
    x = x + dropped(at::linear(hidden, layer.mlp_out.weight, layer.mlp_out.bias));
  }
  const at::Tensor logits = at::linear(normalise(final_norm_, x), head_.weight, head_.bias);
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

}  // namespace train_demo
