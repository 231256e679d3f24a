#include "gradstore/dtype.h"

#include <array>

namespace gradstore {

namespace {

struct Properties {
  std::string_view name;
  std::uint8_t bytes;
  std::uint8_t numbers;
};

// By disk value; 0 is no dtype.
constexpr auto kDTypes = std::to_array<Properties>({
    {"invalid", 0, 0},
    {"float16", 2, 1},
    {"bfloat16", 2, 1},
    {"float32", 4, 1},
    {"float64", 8, 1},
    {"int8", 1, 1},
    {"int16", 2, 1},
    {"int32", 4, 1},
    {"int64", 8, 1},
    {"uint8", 1, 1},
    {"bool", 1, 1},
    {"uint16", 2, 1},
    {"uint32", 4, 1},
    {"uint64", 8, 1},
    {"complex32", 4, 2},
    {"complex64", 8, 2},
    {"complex128", 16, 2},
    {"float8_e5m2", 1, 1},
    {"float8_e4m3fn", 1, 1},
    {"float8_e5m2fnuz", 1, 1},
    {"float8_e4m3fnuz", 1, 1},
    {"float8_e8m0fnu", 1, 1},
    {"float4_e2m1fn_x2", 1, 0},
    {"bits1x8", 1, 0},
    {"bits2x4", 1, 0},
    {"bits4x2", 1, 0},
    {"bits8", 1, 0},
    {"bits16", 2, 0},
    {"uint1", 1, 0},
    {"uint2", 1, 0},
    {"uint3", 1, 0},
    {"uint4", 1, 0},
    {"uint5", 1, 0},
    {"uint6", 1, 0},
    {"uint7", 1, 0},
    {"int1", 1, 0},
    {"int2", 1, 0},
    {"int3", 1, 0},
    {"int4", 1, 0},
    {"int5", 1, 0},
    {"int6", 1, 0},
    {"int7", 1, 0},
});
static_assert(kDTypes.size() == static_cast<std::size_t>(DType::int7) + 1);

const Properties& properties(DType dtype) noexcept {
  const auto code = static_cast<std::size_t>(dtype);
  return kDTypes[code < kDTypes.size() ? code : 0];
}

}  // namespace

std::string_view name_of(DType dtype) noexcept { return properties(dtype).name; }
std::size_t size_of(DType dtype) noexcept { return properties(dtype).bytes; }
std::uint64_t numbers_per_element(DType dtype) noexcept { return properties(dtype).numbers; }

std::optional<DType> dtype_from_code(std::uint8_t code) noexcept {
  const auto dtype = static_cast<DType>(code);
  if (size_of(dtype) == 0) return std::nullopt;
  return dtype;
}

}  // namespace gradstore
