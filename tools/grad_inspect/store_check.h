// Holds a store's files against its index, and every byte against its digest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "archive/verify.h"
#include "selection.h"

namespace gradstore::inspect {

/// What a check found, and where.
struct Finding {
  std::uint32_t rank = 0;
  std::string file;  ///< Below the store's folder; empty: the index of the rank.
  std::optional<SnapshotId> snapshot;
  std::string region;  ///< As archive::Damage has it; "index" where row and file disagree.
  std::string param;
  std::optional<std::uint32_t> slice;
  std::optional<std::uint64_t> offset;
  std::string what;
};

struct CheckResult {
  std::vector<Finding> damage;     ///< Bytes that are lost, or cannot be read.
  std::vector<Finding> leftovers;  ///< Files that belong to no snapshot.
  std::vector<SnapshotId> gone;    ///< Removed by a writer while we looked: neither.
  std::uint64_t snapshots = 0;
  std::uint64_t files = 0;
  std::uint64_t slices = 0;
  std::uint64_t bytes = 0;
  std::uint64_t being_written = 0;  ///< Files that a live writer has not committed yet.
};

class StoreCheck {
 public:
  using OnProgress = std::function<void(const CheckResult& so_far)>;

  StoreCheck(const OpenStore& store, OnProgress on_progress)
      : store_(store), on_progress_(std::move(on_progress)) {}

  /// Checks the row, the gradient file and the state file of one snapshot.
  void check_snapshot(const Selected& selected);
  /// Looks for files of `rank` that no row names. Where the index is lost, checks their bytes.
  void check_leftovers(OpenRank& rank);
  /// Counts an index that cannot be read as damage.
  void check_index(const OpenRank& rank);

  const CheckResult& result() const { return result_; }

 private:
  struct Role;  // Gradients or state: which file, and what the row says of it.

  void check_file(const Selected& selected, const Role& role, std::vector<Finding>& damage);
  void compare_with_index(const Selected& selected, const archive::FileReader& file,
                          std::vector<Finding>& damage);
  void check_unnamed(OpenRank& rank, LayoutKind kind, const std::string& name);
  std::string below_store(const io::Path& path) const;

  const OpenStore& store_;
  OnProgress on_progress_;
  std::set<std::pair<std::uint32_t, SnapshotId>> checked_states_;  // Snapshots may share one.
  CheckResult result_;
};

}  // namespace gradstore::inspect
