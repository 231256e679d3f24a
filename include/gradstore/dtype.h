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
  boolean = 10,  ///< One byte, 0 or 1.
  uint16 = 11,
  uint32 = 12,
  uint64 = 13,
  complex32 = 14,  ///< Two float16: real part, imaginary part.
  complex64 = 15,
  complex128 = 16,
  float8_e5m2 = 17,
  float8_e4m3fn = 18,
  float8_e5m2fnuz = 19,
  float8_e4m3fnuz = 20,
  float8_e8m0fnu = 21,
  // Kept as bytes, without statistics: their elements are no numbers of their own.
  float4_e2m1fn_x2 = 22,
  bits1x8 = 23,
  bits2x4 = 24,
  bits4x2 = 25,
  bits8 = 26,
  bits16 = 27,
  uint1 = 28,
  uint2 = 29,
  uint3 = 30,
  uint4 = 31,
  uint5 = 32,
  uint6 = 33,
  uint7 = 34,
  int1 = 35,
  int2 = 36,
  int3 = 37,
  int4 = 38,
  int5 = 39,
  int6 = 40,
  int7 = 41,
};

/// Name as in PyTorch and numpy: "float32", "bfloat16", ...; "invalid" for a value outside the
/// enum.
std::string_view name_of(DType dtype) noexcept;

/// Bytes of one element; 0 for a value outside the enum.
std::size_t size_of(DType dtype) noexcept;

/// Real numbers in one element: 2 for complex dtypes, 0 for those kept as bytes, else 1. Statistics
/// are of these.
std::uint64_t numbers_per_element(DType dtype) noexcept;

/// The dtype with disk value `code`, or nothing when this version does not know it.
std::optional<DType> dtype_from_code(std::uint8_t code) noexcept;

}  // namespace gradstore
