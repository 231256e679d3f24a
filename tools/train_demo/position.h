// A point of training.
#pragma once

#include <cstdint>

namespace train_demo {

/// `micro_step` backward passes are done in optimizer step `step`.
struct Position {
  std::uint64_t step = 0;        ///< From 0.
  std::uint32_t micro_step = 0;  ///< 0 to the number of accumulation steps.
};

}  // namespace train_demo
