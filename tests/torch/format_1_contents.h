// What the store in tests/torch/format_1_store holds: written once by this version's
// write_format_1_store, and read by every later version.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "torch/dtype_map.h"

namespace gradstore::testing {

constexpr int kFormat1Snapshots = 3;  // In two attempts: 0001-00000001, -02 and 0002-00000001.

/// A tensor whose byte i is (7 i + 31 seed) mod 251, or mod 2 for booleans: no random numbers,
/// whose sequence may change with LibTorch.
inline at::Tensor tensor_of(std::vector<std::int64_t> shape, at::ScalarType type,
                            std::uint64_t seed) {
  auto tensor = at::empty(shape, type);
  auto* bytes = static_cast<std::uint8_t*>(tensor.mutable_data_ptr());
  const std::uint64_t modulus = type == at::kBool ? 2 : 251;
  for (std::uint64_t i = 0; i < tensor.nbytes(); ++i)
    bytes[i] = static_cast<std::uint8_t>((7 * i + 31 * seed) % modulus);
  return tensor;
}

inline at::Tensor sparse_of(std::uint64_t seed) {
  auto indices = at::empty({1, 3}, at::kLong);
  for (std::int64_t i = 0; i < 3; ++i)
    indices.mutable_data_ptr<std::int64_t>()[i] = (5 - i + static_cast<std::int64_t>(seed)) % 9;
  return at::sparse_coo_tensor(indices, tensor_of({3, 2}, at::kFloat, seed), {9, 2});
}

/// Gradients by name, in the order in which they are appended. Group i % 3 for number i, with id i.
inline std::vector<std::pair<std::string, at::Tensor>> format_1_gradients(std::uint64_t seed) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (std::uint8_t code = 1; code <= 41; ++code) {
    const auto dtype = *dtype_from_code(code);
    all.emplace_back(name_of(dtype), tensor_of({2, 3}, scalar_type_of(dtype), seed + code));
  }
  for (const auto& name :
       {std::string(), std::string(".."), std::string("a/b"), std::string("nul\0nul", 7),
        std::string("\xff"), std::string(300, 'x')}) {
    all.emplace_back(name, tensor_of({2}, at::kFloat, seed + name.size()));
  }
  all.emplace_back("scalar", tensor_of({}, at::kDouble, seed));
  all.emplace_back("empty", tensor_of({0, 4}, at::kHalf, seed));
  all.emplace_back("sparse", sparse_of(seed));
  all.emplace_back("tied", all[2].second);
  return all;
}

/// All of them registered, and "absent" without a gradient; two slices of "sharded", the second
/// padded.
inline void register_format_1(GradientStore& store) {
  std::int64_t id = 0;
  for (const auto& [name, tensor] : format_1_gradients(0)) {
    store.register_param(id, {name, id % 3, tensor.sizes().vec(), tensor.scalar_type()});
    ++id;
  }
  store.register_param(1000, {"absent", 1, {4}, at::kFloat});
  store.register_param(1001, {"sharded", 1, {7}, at::kFloat});
}

inline void append_format_1(GradientStore& store, std::uint64_t seed) {
  std::int64_t id = 0;
  for (const auto& [name, tensor] : format_1_gradients(seed)) {
    store.append_gradients_by_param_id(tensor, id % 3, id);
    ++id;
  }
  store.append_gradients_by_param_id(tensor_of({4}, at::kFloat, seed), 1, 1001);
  store.append_gradients_by_param_id(tensor_of({4}, at::kFloat, seed + 1), 1, 1001);
}

inline SnapshotMetadata format_1_metadata(std::uint64_t seed) {
  return {.step = 10 + seed,
          .micro_step = 3,
          .accumulation_steps = 8,
          .stage = Stage::unscaled,
          .loss_scale = 65536.5,
          .user_json = R"({"position":)" + std::to_string(seed) + "}"};
}

inline CompanionState format_1_state(std::uint64_t seed) {
  const auto weight = tensor_of({5, 2}, at::kBFloat16, seed);
  return {{{"weight", weight}, {"tied", weight}, {"rng", tensor_of({100}, at::kByte, seed)}},
          R"({"scheduler":[1,2,3]})"};
}

}  // namespace gradstore::testing
