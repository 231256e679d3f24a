// What the index says about one snapshot of one rank: layout and fingerprints, no file opened.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "json_text.h"
#include "kernels/fingerprint.h"
#include "selection.h"

namespace gradstore::inspect {

struct IndexedSnapshot {
  OpenRank* rank = nullptr;
  index::SnapshotRow row;
  Layout layout;
  std::vector<kernels::SliceFingerprint> fingerprints;  ///< One per slice, in the layout's order.
  std::vector<std::size_t> first_slice;  ///< Of each param; one more entry: the number of slices.

  const GroupSpec& group_of(std::size_t param) const {
    return layout.groups[layout.params[param].group];
  }
  std::size_t num_slices(std::size_t param) const {
    return first_slice[param + 1] - first_slice[param];
  }
};

/// Errors: Error{corrupt} naming what the index lacks.
IndexedSnapshot read_index(const Selected& selected);

/// Positions of the params that `selector` names, ascending.
std::vector<std::size_t> select_params(const IndexedSnapshot& snapshot, const Selector& selector);

/// "captured", "absent" or "not_captured".
std::string presence_name(Presence presence);

std::string shape_text(std::span<const std::uint64_t> shape);  ///< "[3, 4]", "[]" for a scalar.
std::string range_text(const SliceSpec& slice);  ///< "101..200", "101..200 +2 padding"

/// Position, dtype, shape, range and fingerprint of slice `number`.
Json slice_json(const IndexedSnapshot& snapshot, std::size_t number);

/// Name, presence, dtype and shape; its slices are the caller's to add.
Json param_json(const ParamSpec& param);

}  // namespace gradstore::inspect
