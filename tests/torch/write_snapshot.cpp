// Writes a snapshot of known tensors, and beside it what they hold, for
// check_snapshot_with_h5py.py:
//
//   write_snapshot DIRECTORY
//
// DIRECTORY/store is the store. DIRECTORY/expected.json lists its datasets: path, dtype, shape, and
// the file beside it that has their bytes in row-major order.
#include <ATen/core/Tensor.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "gradstore/dtype.h"
#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "hdf5/link_name.h"
#include "torch/dtype_map.h"

namespace {

using nlohmann::json;

class Expectations {
 public:
  explicit Expectations(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // `tensor` is dense.
  void add(const std::string& path, const at::Tensor& tensor) {
    const auto file = std::to_string(datasets_.size()) + ".bin";
    const auto bits = tensor.element_size() == 1 ? tensor.view(at::kByte) : tensor;
    const auto contiguous = bits.contiguous();
    std::ofstream(directory_ / file, std::ios::binary)
        .write(static_cast<const char*>(contiguous.const_data_ptr()),
               static_cast<std::streamsize>(contiguous.nbytes()));
    datasets_.push_back({{"path", path},
                         {"dtype", gradstore::name_of(*gradstore::dtype_of(tensor.scalar_type()))},
                         {"shape", tensor.sizes().vec()},
                         {"file", file}});
  }
  void add_link(const std::string& path, const std::string& to) { links_[path] = to; }
  void write() const {
    std::ofstream(directory_ / "expected.json") << json{{"datasets", datasets_}, {"links", links_}};
  }

 private:
  std::filesystem::path directory_;
  json datasets_ = json::array();
  json links_ = json::object();
};

at::Tensor sparse() {
  auto indices = at::empty({1, 4}, at::kLong);
  std::ranges::copy(std::vector<std::int64_t>{3, 1, 3, 9},
                    indices.mutable_data_ptr<std::int64_t>());
  return at::sparse_coo_tensor(indices, at::randn({4, 5}), {10, 5});
}

void write(const std::filesystem::path& directory) {
  const auto bits = at::randint(0, 256, {96}, at::kByte);
  std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"transposed", at::randn({6, 11}).t()},
      {"strided", at::randn({1000}).slice(0, 3, 900, 7)},
      {"channels last", at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"scalar", at::randn({})},
      {"nothing", at::randn({3, 0})},
      {"large", at::randn({3'000'000})},
      {"mask", at::randint(0, 2, {40}, at::kBool)},
  };
  for (std::uint8_t code = 1; gradstore::dtype_from_code(code); ++code) {
    const auto dtype = *gradstore::dtype_from_code(code);
    if (dtype == gradstore::DType::boolean) continue;  // Not any byte is one.
    tensors.emplace_back(gradstore::name_of(dtype), bits.view(gradstore::scalar_type_of(dtype)));
  }
  for (const auto& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string("nul\0nul", 7), std::string("\xff\xfe"), std::string("\xf0\x9f\x94\xa5 grad"),
        std::string("%2F"), std::string(65536, 'x'), std::string(65536, 'x') + "y"}) {
    tensors.emplace_back(name, at::randn({2, 3}));
  }
  const auto tied = tensors[0].second;

  gradstore::GradientStore gradients;
  Expectations expected(directory);
  std::int64_t id = 0;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const auto group = id % 3;
    gradients.register_param(
        ++id, {name, group, tensor.sizes().vec(), tensor.scalar_type(), tensor.device()});
    gradients.append_gradients_by_param_id(tensor, group, id);
    return "gradients/" + std::to_string(group) + "/" + gradstore::hdf5::link_name(name) + "/0";
  };
  for (const auto& [name, tensor] : tensors) expected.add(add(name, tensor), tensor);
  expected.add_link(add("tied", tied), "gradients/0/transposed/0");
  const auto embedding = sparse();
  const auto path = add("embedding", embedding);
  expected.add(path + "/indices", embedding._indices());
  expected.add(path + "/values", embedding._values());
  expected.write();

  const auto store = gradstore::SnapshotStore::open(directory / "store");
  gradstore::CompanionState state{{{"weights", tied}}, R"({"position":17})"};
  const auto ticket =
      store->snapshot(gradients, {.step = 3, .user_json = R"({"note":"hello"})"}, state);
  ticket.wait();
  std::cout << to_string(ticket.id()) << '\n';
  store->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::filesystem::create_directories(argv[1]);
  write(argv[1]);
}
