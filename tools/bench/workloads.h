// What is saved: tensors of the shapes that real jobs have.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gradstore::bench {

struct Workload {
  std::string name;
  std::vector<at::Tensor> tensors;
  std::uint64_t bytes = 0;
};

/// "gpt2": 148 tensors, 475 MiB, the shapes of a 124M-parameter GPT-2. "big": 32 x 16 MiB.
/// "small": 20 000 x 4 KiB. Errors: Error{invalid_argument} another name.
Workload make_workload(const std::string& name);

}  // namespace gradstore::bench
