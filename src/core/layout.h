// The layout of a snapshot: the ordered list of its groups, params and slices, without any value.
//
// Two snapshots of equal layout have equal HDF5 metadata and equal offsets, so a layout (by its
// digest) is what skeletons and index pages are filed under.
#pragma once

#include <cstdint>
#include <optional>
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

/// Of a sparse COO slice. Its entries change with every snapshot, so there is room for more than
/// there are: the layout, and with it all offsets, stays as long as the capacity does.
struct SparseSpec {
  std::uint32_t sparse_dims = 0;  ///< Leading dimensions of the shape, those that indices address.
  std::uint64_t capacity = 1;     ///< Entries there is room for: a power of two.
  bool operator==(const SparseSpec&) const = default;
};

struct SliceSpec {
  std::uint32_t param = 0;     ///< Position in Layout::params.
  std::uint32_t position = 0;  ///< Position in the param's list of slices.
  DType dtype = DType::float32;
  std::vector<std::uint64_t> shape;  ///< As stored, padding included.
  std::uint64_t begin = 0;           ///< First element of the flattened param that it holds.
  std::uint64_t end = 0;             ///< One past the last.
  std::uint64_t padding = 0;         ///< Elements at its end that belong to no param.
  std::optional<SparseSpec> sparse = std::nullopt;  ///< Nothing: dense, all elements are stored.
  /// Number of the earlier slice whose memory this one shares, element by element: the bytes are
  /// stored there, once. Everything but the param, the position and the range agrees.
  std::optional<std::uint64_t> alias_of = std::nullopt;
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

/// Where the parts of a sparse slice lie in its bytes; those in between are zero. Unit: bytes.
struct SparseParts {
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  Part header;   ///< Two uint64: number of entries, and 1 if they are coalesced, else 0.
  Part indices;  ///< int64 [sparse_dims, capacity]; columns behind the entries are zero.
  Part values;   ///< [capacity, the other dimensions...]; rows behind the entries are zero.
  std::uint64_t entry_bytes = 0;  ///< Of one row of `values`.
};

/// `slice` must be sparse. Throws Error{corrupt} when the bytes leave 63 bits.
SparseParts sparse_parts(const SliceSpec& slice);

/// Capacity for so many entries: the next power of two.
std::uint64_t sparse_capacity(std::uint64_t entries);

/// Bytes of a slice as stored, padding included; of an alias, those of the slice that it shares.
std::uint64_t num_bytes(const SliceSpec& slice);

/// Checks what the structure promises (order, bounds, presence, element counts).
/// Errors: Error{corrupt} naming the first param that breaks it.
void validate(const Layout& layout);

/// `name` for a message: escaped, and cut in the middle when it is very long.
std::string printable(std::string_view name);

}  // namespace gradstore
