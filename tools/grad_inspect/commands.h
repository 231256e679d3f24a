// The commands, each in a source file of its own name. They return or throw; they never exit.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "terminal.h"

namespace gradstore::inspect {

/// What the program's exit status says; documented under `grad-inspect --help`.
enum class ExitStatus {
  fine = 0,
  findings = 1,  ///< Something to look at, but no damage.
  trouble = 2,   ///< Usage error, or the question could not be answered.
  damaged = 3,   ///< The store is damaged or not fully readable.
  nothing = 4,   ///< Nothing was selected.
};

/// Where a command's answer goes.
struct Output {
  std::ostream& out;  ///< Data.
  std::ostream& err;  ///< Warnings.
  Style style;
  bool json = false;
  bool quiet = false;  ///< No progress, and of a verification only what was found.
};

struct InfoOptions {
  std::string address;
};

enum class SortKey { layout, name, elements, bytes, norm, absmax, nan, inf, zero };

struct LsOptions {
  std::string address;
  bool long_form = false;
  bool snapshots = false;
  SortKey sort = SortKey::layout;
};

struct ShowOptions {
  std::string address;
  std::optional<std::string> values;  ///< "A:B", elements of each slice.
  std::optional<std::uint32_t> slice;
  bool manifest = false;
  std::uint64_t limit = 20;  ///< Slices shown; 0: all.
};

struct VerifyOptions {
  std::string address;
};

// Errors of all: Error; {not_found} means that nothing was selected.
ExitStatus info(const InfoOptions& options, const Output& output);
ExitStatus ls(const LsOptions& options, const Output& output);
ExitStatus ls_snapshots(const LsOptions& options, const Output& output);
ExitStatus show(const ShowOptions& options, const Output& output);
ExitStatus verify(const VerifyOptions& options, const Output& output);

}  // namespace gradstore::inspect
