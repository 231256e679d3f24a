#include "torch/dtype_map.h"

#include <array>

#include "core/ensure.h"

namespace gradstore {

namespace {

struct Pair {
  at::ScalarType type;
  DType dtype;
};

// All but the quantised types, whose scale and zero point would be lost. tests/torch holds this
// against LibTorch's own list.
constexpr auto kPairs = std::to_array<Pair>({
    {at::ScalarType::Half, DType::float16},
    {at::ScalarType::BFloat16, DType::bfloat16},
    {at::ScalarType::Float, DType::float32},
    {at::ScalarType::Double, DType::float64},
    {at::ScalarType::Char, DType::int8},
    {at::ScalarType::Short, DType::int16},
    {at::ScalarType::Int, DType::int32},
    {at::ScalarType::Long, DType::int64},
    {at::ScalarType::Byte, DType::uint8},
    {at::ScalarType::Bool, DType::boolean},
    {at::ScalarType::UInt16, DType::uint16},
    {at::ScalarType::UInt32, DType::uint32},
    {at::ScalarType::UInt64, DType::uint64},
    {at::ScalarType::ComplexHalf, DType::complex32},
    {at::ScalarType::ComplexFloat, DType::complex64},
    {at::ScalarType::ComplexDouble, DType::complex128},
    {at::ScalarType::Float8_e5m2, DType::float8_e5m2},
    {at::ScalarType::Float8_e4m3fn, DType::float8_e4m3fn},
    {at::ScalarType::Float8_e5m2fnuz, DType::float8_e5m2fnuz},
    {at::ScalarType::Float8_e4m3fnuz, DType::float8_e4m3fnuz},
    {at::ScalarType::Float8_e8m0fnu, DType::float8_e8m0fnu},
    {at::ScalarType::Float4_e2m1fn_x2, DType::float4_e2m1fn_x2},
    {at::ScalarType::Bits1x8, DType::bits1x8},
    {at::ScalarType::Bits2x4, DType::bits2x4},
    {at::ScalarType::Bits4x2, DType::bits4x2},
    {at::ScalarType::Bits8, DType::bits8},
    {at::ScalarType::Bits16, DType::bits16},
    {at::ScalarType::UInt1, DType::uint1},
    {at::ScalarType::UInt2, DType::uint2},
    {at::ScalarType::UInt3, DType::uint3},
    {at::ScalarType::UInt4, DType::uint4},
    {at::ScalarType::UInt5, DType::uint5},
    {at::ScalarType::UInt6, DType::uint6},
    {at::ScalarType::UInt7, DType::uint7},
    {at::ScalarType::Int1, DType::int1},
    {at::ScalarType::Int2, DType::int2},
    {at::ScalarType::Int3, DType::int3},
    {at::ScalarType::Int4, DType::int4},
    {at::ScalarType::Int5, DType::int5},
    {at::ScalarType::Int6, DType::int6},
    {at::ScalarType::Int7, DType::int7},
});

}  // namespace

std::optional<DType> dtype_of(at::ScalarType type) noexcept {
  for (const auto& pair : kPairs) {
    if (pair.type == type) return pair.dtype;
  }
  return std::nullopt;
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& pair : kPairs) {
    if (pair.dtype == dtype) return pair.type;
  }
  ensure(false, "a dtype read from disk was checked");
  return at::ScalarType::Undefined;
}

}  // namespace gradstore
