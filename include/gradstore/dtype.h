// Element types, as stored on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gradstore {

/// Element type of a slice. The values are part of the disk format: never renumber.
enum class DType : std::uint8_t {
  float16 = 1,
  bfloat16 = 2,
  float32 = 3,
  float64 = 4,
  int8 = 5,
  int16 = 6,
  int32 = 7,
  int64 = 8,
  uint8 = 9,
};

/// Name as in PyTorch and numpy: "float32", "bfloat16", ...; "invalid" for a value outside the
/// enum.
std::string_view name_of(DType dtype) noexcept;

/// Bytes of one element; 0 for a value outside the enum.
std::size_t size_of(DType dtype) noexcept;

/// The dtype with disk value `code`, or nothing when this version does not know it.
std::optional<DType> dtype_from_code(std::uint8_t code) noexcept;

}  // namespace gradstore
