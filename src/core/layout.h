// The layout of a snapshot: the ordered list of its groups, params and slices, without any value.
//
// Two snapshots of equal layout have equal HDF5 metadata and equal offsets, so a layout (by its
// digest) is what skeletons and index pages are filed under.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gradstore/dtype.h"

namespace gradstore {

/// What the file holds. Disk values.
enum class LayoutKind : std::uint8_t {
  gradients = 1,  ///< group -> param -> slices
  state = 2,      ///< Companion state: one group (id 0), each tensor a param with one slice.
};

/// Whether a param has a gradient in this snapshot: three states that never look alike. Disk
/// values.
enum class Presence : std::uint8_t {
  captured = 1,      ///< One or more slices follow.
  absent = 2,        ///< No gradient: None.
  not_captured = 3,  ///< Known to the store, left out of this snapshot.
};

struct GroupSpec {
  std::int64_t id = 0;
  bool in_store =
      true;  ///< False: named by absent params only; in memory the group does not exist.
  bool operator==(const GroupSpec&) const = default;
};

struct ParamSpec {
  std::string name;              ///< Any bytes.
  std::uint32_t group = 0;       ///< Position in Layout::groups.
  DType dtype = DType::float32;  ///< Of the param.
  Presence presence = Presence::captured;
  std::vector<std::uint64_t> shape;  ///< Of the whole param; empty for a scalar.
  bool operator==(const ParamSpec&) const = default;
};

struct SliceSpec {
  std::uint32_t param = 0;     ///< Position in Layout::params.
  std::uint32_t position = 0;  ///< Position in the param's list of slices.
  DType dtype = DType::float32;
  std::vector<std::uint64_t> shape;  ///< As stored, padding included.
  std::uint64_t begin = 0;           ///< First element of the flattened param that it holds.
  std::uint64_t end = 0;             ///< One past the last.
  std::uint64_t padding = 0;         ///< Elements at its end that belong to no param.
  bool operator==(const SliceSpec&) const = default;
};

struct Layout {
  LayoutKind kind = LayoutKind::gradients;
  std::vector<GroupSpec> groups;  ///< In the order in which they appeared in training.
  std::vector<ParamSpec>
      params;  ///< By group; inside a group in the order of their first gradient.
  std::vector<SliceSpec> slices;  ///< By param, by position.
  bool operator==(const Layout&) const = default;
};

/// Elements of a tensor of `shape`; throws Error{corrupt} when the product leaves 63 bits.
std::uint64_t num_elements(std::span<const std::uint64_t> shape);

/// Bytes of a slice's elements, padding included.
std::uint64_t num_bytes(const SliceSpec& slice);

/// Checks what the structure promises (order, bounds, presence, element counts).
/// Errors: Error{corrupt} naming the first param that breaks it.
void validate(const Layout& layout);

/// `name` for a message: escaped, and cut in the middle when it is very long.
std::string printable(std::string_view name);

}  // namespace gradstore
