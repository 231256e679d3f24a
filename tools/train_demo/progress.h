// Where training is: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "position.h"

namespace train_demo {

class Progress {
 public:
  /// Writes to standard output. Colour only on a terminal, and never with NO_COLOR set.
  Progress(std::uint64_t steps, std::uint32_t accumulation_steps);

  /// After every micro-step: moves the bar.
  void micro_step(Position at, double loss);
  /// After every optimizer step: a line now and then, where there is no bar.
  void step(Position at, double loss);
  /// A line of its own, above the bar.
  void say(const std::string& line);

 private:
  std::uint64_t steps_;
  std::uint32_t accumulation_steps_;
  bool has_bar_;
  bool has_colour_;
  bool bar_is_drawn_ = false;
};

}  // namespace train_demo
