// The layout as a record: the same bytes in the file and in the index.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/layout.h"

namespace gradstore::index {

/// Equal layouts give equal bytes, whose XXH3-128 is the layout's digest.
std::string encode(const Layout& layout);

/// The result is validated (core/layout.h).
/// Errors: Error{corrupt}, Error{incompatible} for a newer version.
Layout decode_layout(std::span<const std::byte> bytes);

}  // namespace gradstore::index
