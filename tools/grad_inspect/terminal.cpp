#include "terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace gradstore::inspect {

namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

const char* code_of(Look look) {
  switch (look) {
    case Look::plain: return "";
    case Look::heading: return "\x1b[1m";
    case Look::dim: return "\x1b[2m";
    case Look::good: return "\x1b[32m";
    case Look::warning: return "\x1b[33m";
    case Look::bad: return "\x1b[1;31m";
  }
  return "";
}

}  // namespace

std::string Style::apply(Look look, std::string_view text) const {
  if (!colours_ || look == Look::plain || text.empty()) return std::string(text);
  return code_of(look) + std::string(text) + "\x1b[0m";
}

Style style_for_stdout(ColourChoice choice) {
  switch (choice) {
    case ColourChoice::always: return Style(true);
    case ColourChoice::never: return Style(false);
    case ColourChoice::automatic: break;
  }
  if (is_set("NO_COLOR")) return Style(false);
  if (is_set("CLICOLOR_FORCE") && std::string_view(std::getenv("CLICOLOR_FORCE")) != "0") {
    return Style(true);
  }
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return Style(!dumb && ::isatty(STDOUT_FILENO) == 1);
}

Progress::Progress(bool wanted) : active_(wanted && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { wipe(); }

void Progress::show(const std::string& line) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (!active_ || (shown_ && now - last_ < 100ms)) return;
  last_ = now;
  shown_ = true;
  std::cerr << "\r\x1b[K" << line << std::flush;
}

void Progress::wipe() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace gradstore::inspect
