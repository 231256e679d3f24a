// Layouts that hold every case, and whole files of them with values that a test can predict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "archive/skeleton.h"
#include "core/layout.h"

namespace gradstore::testing {

/// Puts a layout together in the order that layouts ask for.
class LayoutMaker {
 public:
  explicit LayoutMaker(LayoutKind kind = LayoutKind::gradients) { layout_.kind = kind; }

  LayoutMaker& group(std::int64_t id);
  LayoutMaker& param(const std::string& name, Presence presence = Presence::captured);
  /// Another slice of the last param. The param's shape grows to cover it.
  LayoutMaker& slice(DType dtype, std::vector<std::uint64_t> shape, std::uint64_t padding = 0);

  /// Another slice, sparse; and one that shares the memory of slice number `of`.
  LayoutMaker& sparse(DType dtype, std::vector<std::uint64_t> shape, std::uint32_t sparse_dims,
                      std::uint64_t capacity);
  LayoutMaker& alias(std::uint64_t of);

  Layout layout() const { return layout_; }

 private:
  Layout layout_;
};

/// All dtypes and shapes, sparse slices and aliases, absent params, empty groups, equal names in
/// two groups, odd names, a group of 300 params, a param of 20 slices.
Layout gradients_of_every_kind();
Layout state_of_every_kind();
Layout params_of_one_slice(std::uint32_t count, std::uint64_t elements = 1024);

archive::PartSizes sample_sizes();

/// The file's bytes: zeros for the seal, `skeleton`, then byte j of part k is
/// (31 k + 7 j + 13 (j / 256) + 3) mod 256. Part 0 is the layout, 1 the fingerprints, 3 + i slice
/// i, unless that is an alias. The manifest is sample_manifest(), padded with spaces.
std::vector<std::byte> sample_file(const archive::Skeleton& skeleton);
std::string sample_manifest();

}  // namespace gradstore::testing
