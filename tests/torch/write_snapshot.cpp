// Writes a snapshot of known tensors, and beside it what they hold, for
// check_snapshot_with_h5py.py:
//   write_snapshot DIRECTORY
// DIRECTORY/store is the store; each tensor's elements, as float64 in row-major order, lie in
// DIRECTORY/<name>.f64, and DIRECTORY/shapes.txt has a line "<group> <name> <dtype> <extent>..."
// each.
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path directory = argv[1];
  std::filesystem::create_directories(directory);
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"float32", at::randn({50, 7})},
      {"float64", at::randn({9}, at::kDouble)},
      {"float16", at::randn({33}).to(at::kHalf)},
      {"bfloat16", at::randn({5, 5, 5}).to(at::kBFloat16)},
      {"int8", at::randint(-128, 128, {77}, at::kChar)},
      {"int16", at::randint(-30000, 30000, {77}, at::kShort)},
      {"int32", at::randint(-1000000, 1000000, {77}, at::kInt)},
      {"int64", at::randint(-1000000, 1000000, {77}, at::kLong)},
      {"uint8", at::randint(0, 256, {77}, at::kByte)},
      {"transposed", at::randn({6, 11}).t()},
      {"strided", at::randn({1000}).slice(0, 3, 900, 7)},
      {"scalar", at::randn({})},
      {"large", at::randn({3'000'000})},
  };
  gradstore::GradientStore gradients;
  std::ofstream shapes(directory / "shapes.txt");
  std::int64_t id = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto group = id % 3;
    gradients.register_param(++id, name, group, tensor);
    gradients.append_gradients_by_param_id(tensor, group, id);
    shapes << group << ' ' << name << ' ' << at::toString(tensor.scalar_type());
    for (const auto extent : tensor.sizes()) shapes << ' ' << extent;
    shapes << '\n';
    const auto values = tensor.to(at::kDouble).contiguous();
    std::ofstream(directory / (name + ".f64"), std::ios::binary)
        .write(static_cast<const char*>(values.const_data_ptr()),
               static_cast<std::streamsize>(values.nbytes()));
  }
  const auto store = gradstore::SnapshotStore::open(directory / "store");
  gradstore::CompanionState state{{{"weights", tensors[0].second}}, R"({"position":17})"};
  const auto ticket =
      store->snapshot(gradients, {.step = 3, .user_json = R"({"note":"hello"})"}, state);
  ticket.wait();
  std::cout << to_string(ticket.id()) << '\n';
  store->close();
}
