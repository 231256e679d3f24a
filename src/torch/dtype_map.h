// LibTorch's element types and ours.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "gradstore/dtype.h"

namespace gradstore {

/// Nothing for a type that this version does not store.
std::optional<DType> dtype_of(at::ScalarType type) noexcept;

at::ScalarType scalar_type_of(DType dtype);

}  // namespace gradstore
