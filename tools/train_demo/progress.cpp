#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace train_demo {
namespace {

constexpr std::uint64_t kBarWidth = 30;
constexpr std::uint64_t kPlainLines = 8;  // At most about so many in a run.

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool is_capable_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Progress::Progress(std::uint64_t steps, std::uint32_t accumulation_steps)
    : steps_(steps),
      accumulation_steps_(accumulation_steps),
      has_bar_(is_capable_terminal()),
      has_colour_(has_bar_ && !is_set("NO_COLOR")) {}

void Progress::micro_step(Position at, double loss) {
  if (!has_bar_) return;
  const std::uint64_t done = at.step * accumulation_steps_ + at.micro_step;
  const std::uint64_t all = std::max<std::uint64_t>(steps_ * accumulation_steps_, 1);
  const auto filled = static_cast<std::size_t>(kBarWidth * done / all);
  std::printf("\r\x1b[2K%s%s%s%s step %llu of %llu, micro-step %u of %u, loss %.3f",
              has_colour_ ? "\x1b[32m" : "", std::string(filled, '#').c_str(),
              has_colour_ ? "\x1b[0m" : "", std::string(kBarWidth - filled, '.').c_str(),
              static_cast<unsigned long long>(at.step), static_cast<unsigned long long>(steps_),
              at.micro_step, accumulation_steps_, loss);
  std::fflush(stdout);
  bar_is_drawn_ = true;
}

void Progress::step(Position at, double loss) {
  const std::uint64_t every = std::max<std::uint64_t>(steps_ / kPlainLines, 1);
  if (has_bar_ || (at.step + 1) % every != 0) return;
  std::printf("  step %llu of %llu, loss %.3f\n", static_cast<unsigned long long>(at.step),
              static_cast<unsigned long long>(steps_), loss);
  std::fflush(stdout);
}

void Progress::say(const std::string& line) {
  if (bar_is_drawn_) std::printf("\r\x1b[2K");
  bar_is_drawn_ = false;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace train_demo
