// Floating-point formats of at most 16 bits that C++ has no type for.
#pragma once

#include <cstdint>
#include <limits>

#include "gradstore/dtype.h"

namespace gradstore {

/// What the encodings with the largest exponent, or the negative zero, stand for.
enum class SpecialValues {
  ieee,        ///< Largest exponent: infinities and NaN.
  only_nan,    ///< "fn": all exponent and mantissa bits set is NaN; no infinities.
  unsigned_0,  ///< "fnuz": the encoding of -0 is NaN; no infinities, no -0.
  scale,       ///< e8m0: a power of two, no sign, no zero; all bits set is NaN.
};

struct SmallFloat {
  int bits = 0;  ///< 0: the dtype is none of these.
  int mantissa_bits = 0;
  int bias = 0;
  SpecialValues special = SpecialValues::ieee;
};

constexpr SmallFloat small_float_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float16: return {16, 10, 15, SpecialValues::ieee};
    case DType::bfloat16: return {16, 7, 127, SpecialValues::ieee};
    case DType::float8_e5m2: return {8, 2, 15, SpecialValues::ieee};
    case DType::float8_e4m3fn: return {8, 3, 7, SpecialValues::only_nan};
    case DType::float8_e5m2fnuz: return {8, 2, 16, SpecialValues::unsigned_0};
    case DType::float8_e4m3fnuz: return {8, 3, 8, SpecialValues::unsigned_0};
    case DType::float8_e8m0fnu: return {8, 0, 127, SpecialValues::scale};
    default: return {};
  }
}

/// The exact value of `code`. Source: IEEE 754; OCP 8-bit floating point and microscaling formats;
/// for "fnuz" the definitions in LibTorch's c10/util/Float8_*.h.
constexpr double decode(const SmallFloat& format, std::uint32_t code) noexcept {
  const auto power_of_two = [](int exponent) {
    double power = 1;
    for (; exponent > 0; --exponent) power *= 2;
    for (; exponent < 0; ++exponent) power /= 2;
    return power;
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.special == SpecialValues::scale) {
    return code == 0xff ? kNan : power_of_two(static_cast<int>(code) - format.bias);
  }
  const std::uint32_t sign_bit = 1u << (format.bits - 1);
  const std::uint32_t magnitude = code & (sign_bit - 1);
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const int largest_exponent = static_cast<int>((sign_bit - 1) >> format.mantissa_bits);

  double value = 0;
  if (format.special == SpecialValues::ieee && exponent == largest_exponent) {
    value = mantissa != 0 ? kNan : std::numeric_limits<double>::infinity();
  } else if (format.special == SpecialValues::only_nan && magnitude == sign_bit - 1) {
    value = kNan;
  } else if (format.special == SpecialValues::unsigned_0 && code == sign_bit) {
    return kNan;
  } else if (exponent == 0) {
    value = mantissa * power_of_two(1 - format.bias - format.mantissa_bits);
  } else {
    value = (mantissa + (1u << format.mantissa_bits)) *
            power_of_two(exponent - format.bias - format.mantissa_bits);
  }
  return (code & sign_bit) != 0 ? -value : value;
}

}  // namespace gradstore
