// Colour and progress: only where somebody looks, and never the only signal.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace gradstore::inspect {

enum class Look { plain, heading, dim, good, warning, bad };

class Style {
 public:
  explicit Style(bool colours = false) : colours_(colours) {}
  std::string apply(Look look, std::string_view text) const;

 private:
  bool colours_;
};

enum class ColourChoice { automatic, always, never };

/// By `automatic`: on a terminal, unless NO_COLOR is set or TERM=dumb; CLICOLOR_FORCE overrides.
Style style_for_stdout(ColourChoice choice);

/// One line on stderr that rewrites itself; silent unless stderr is a terminal.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress();  ///< Wipes the line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& line);
  void wipe();  ///< Before something else is printed.

 private:
  bool active_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace gradstore::inspect
