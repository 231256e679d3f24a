#include "workloads.h"

#include <ATen/ops/randn.h>

#include "gradstore/error.h"

namespace gradstore::bench {

namespace {

void add(Workload& workload, std::vector<std::int64_t> shape) {
  workload.tensors.push_back(at::randn(shape));
  workload.bytes += workload.tensors.back().nbytes();
}

void add_gpt2(Workload& workload) {
  constexpr std::int64_t d = 768;
  add(workload, {50257, d});
  add(workload, {1024, d});
  for (int layer = 0; layer < 12; ++layer) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{{d},
                                                                    {d},
                                                                    {d, 3 * d},
                                                                    {3 * d},
                                                                    {d, d},
                                                                    {d},
                                                                    {d},
                                                                    {d},
                                                                    {d, 4 * d},
                                                                    {4 * d},
                                                                    {4 * d, d},
                                                                    {d}}) {
      add(workload, shape);
    }
  }
  add(workload, {d});
  add(workload, {d});
}

}  // namespace

Workload make_workload(const std::string& name) {
  Workload workload{name, {}, 0};
  if (name == "gpt2") {
    add_gpt2(workload);
  } else if (name == "big") {
    for (int i = 0; i < 32; ++i) add(workload, {4 << 20});
  } else if (name == "small") {
    for (int i = 0; i < 20'000; ++i) add(workload, {1024});
  } else {
    throw Error(ErrorCode::invalid_argument,
                "There is no workload " + name + ": gpt2, big or small");
  }
  return workload;
}

}  // namespace gradstore::bench
