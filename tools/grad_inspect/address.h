// What a command looks at: STORE[@SELECTOR].
//
//   SELECTOR = term {"," term}, each key once
//   attempt=N  step=N|latest  micro=N  rank=N  group=N     N: 3, or 100..200, or 100..200:10
//   stage=pre_reduce|post_reduce|unscaled|clipped
//   param=GLOB        glob.h; a comma in it is written \,
//   snapshot=ATT-SEQ  as `ls --snapshots` prints it
//
// Both ends of a range belong to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "glob.h"
#include "gradstore/snapshot.h"

namespace gradstore::inspect {

/// first, first + step, ... up to last.
struct NumberRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t step = 1;
  bool operator==(const NumberRange&) const = default;
  bool contains(std::int64_t number) const {
    return number >= first && number <= last && (number - first) % step == 0;
  }
  /// The same for numbers that are never negative, of which the greatest lie beyond every range.
  bool contains(std::uint64_t number) const {
    return number <= static_cast<std::uint64_t>(INT64_MAX) &&
           contains(static_cast<std::int64_t>(number));
  }
};

/// What is not named is not restricted.
struct Selector {
  std::string text;  ///< As given, for messages; empty without one.
  std::optional<NumberRange> attempt, step, micro, rank, group;
  bool latest_step = false;  ///< step=latest: the step of the newest snapshot.
  std::optional<Stage> stage;
  std::optional<Glob> param;
  std::optional<SnapshotId> snapshot;

  /// Does it name snapshots, rather than only parts of them?
  bool names_snapshots() const {
    return attempt || step || micro || latest_step || stage || snapshot;
  }
};

struct Address {
  std::string store;
  Selector selector;
};

/// Splits at the "@" that leaves the longest existing path, or at the last one if none exists, and
/// parses what follows. `exists` says whether a path is there.
/// Errors: Error{invalid_argument}, of three lines: what is wrong, `text`, and a mark below the
/// wrong part.
Address parse_address(std::string_view text, const std::function<bool(const std::string&)>& exists);

/// The same, asking the operating system.
Address parse_address(std::string_view text);

}  // namespace gradstore::inspect
