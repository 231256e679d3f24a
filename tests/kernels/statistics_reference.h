// The statistics, element by element as Note [Order of summation] in kernels/statistics.h says.
// Shares no code with the kernel. Slow.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "gradstore/dtype.h"
#include "kernels/statistics.h"

namespace gradstore::kernels {

template <class Stored>
Stored stored_element(const std::byte* at) {
  Stored value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// IEEE 754 by its definition: sign, exponent, mantissa.
inline double half_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

inline double bfloat_value(std::uint16_t bits) {
  const std::uint16_t halves[2] = {0, bits};  // Little-endian: the upper half of a float.
  float value;
  std::memcpy(&value, halves, sizeof value);
  return static_cast<double>(value);
}

// An 8-bit float of a sign, some exponent bits, a mantissa: by the tables of the OCP specification
// and of LibTorch, special codes first.
inline double float8_value(std::uint8_t code, int mantissa_bits, int bias, bool has_infinity,
                           bool minus_zero_is_nan) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (minus_zero_is_nan && code == 0x80) return kNan;
  const int scale = 1 << mantissa_bits;
  const int exponent = (code & 0x7f) / scale;
  const int mantissa = (code & 0x7f) % scale;
  const double sign = code >= 0x80 ? -1 : 1;
  if (has_infinity && exponent == 31)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : kNan;
  if (!has_infinity && !minus_zero_is_nan && (code & 0x7f) == 0x7f) return kNan;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(scale + mantissa, exponent - bias - mantissa_bits);
}

// The `part`-th number of the element.
inline double element_value(DType dtype, const std::byte* at, std::size_t part = 0) {
  switch (dtype) {
    case DType::float16: return half_value(stored_element<std::uint16_t>(at));
    case DType::bfloat16: return bfloat_value(stored_element<std::uint16_t>(at));
    case DType::float32: return static_cast<double>(stored_element<float>(at));
    case DType::float64: return stored_element<double>(at);
    case DType::int8: return static_cast<double>(stored_element<std::int8_t>(at));
    case DType::int16: return static_cast<double>(stored_element<std::int16_t>(at));
    case DType::int32: return static_cast<double>(stored_element<std::int32_t>(at));
    case DType::int64: return static_cast<double>(stored_element<std::int64_t>(at));
    case DType::uint8: return static_cast<double>(stored_element<std::uint8_t>(at));
    case DType::boolean: return *at == std::byte{0} ? 0 : 1;
    case DType::uint16: return static_cast<double>(stored_element<std::uint16_t>(at));
    case DType::uint32: return static_cast<double>(stored_element<std::uint32_t>(at));
    case DType::uint64: return static_cast<double>(stored_element<std::uint64_t>(at));
    case DType::complex32: return half_value(stored_element<std::uint16_t>(at + 2 * part));
    case DType::complex64: return static_cast<double>(stored_element<float>(at + 4 * part));
    case DType::complex128: return stored_element<double>(at + 8 * part);
    case DType::float8_e5m2:
      return float8_value(stored_element<std::uint8_t>(at), 2, 15, true, false);
    case DType::float8_e4m3fn:
      return float8_value(stored_element<std::uint8_t>(at), 3, 7, false, false);
    case DType::float8_e5m2fnuz:
      return float8_value(stored_element<std::uint8_t>(at), 2, 16, false, true);
    case DType::float8_e4m3fnuz:
      return float8_value(stored_element<std::uint8_t>(at), 3, 8, false, true);
    case DType::float8_e8m0fnu: {
      const int exponent = stored_element<std::uint8_t>(at);
      return exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                             : std::ldexp(1.0, exponent - 127);
    }
    default: return 0;
  }
}

struct ReferenceLanes {
  double lane[16] = {};

  double total() const {
    double by8[8], by4[4], by2[2];
    for (int j = 0; j < 8; ++j) by8[j] = lane[j] + lane[j + 8];
    for (int j = 0; j < 4; ++j) by4[j] = by8[j] + by8[j + 4];
    for (int j = 0; j < 2; ++j) by2[j] = by4[j] + by4[j + 2];
    return by2[0] + by2[1];
  }
};

inline Statistics reference_statistics(DType dtype, std::span<const std::byte> bytes) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::size_t element_size = size_of(dtype);
  Statistics s;
  const std::size_t parts = numbers_per_element(dtype);
  s.count = bytes.size() / element_size * parts;
  for (std::size_t chunk = 0; chunk < s.count; chunk += 65'536) {
    ReferenceLanes sums, squares;
    for (std::size_t i = chunk; i < s.count && i < chunk + 65'536; ++i) {
      const double x = element_value(dtype, bytes.data() + i / parts * element_size, i % parts);
      if (std::isnan(x)) {
        ++s.nan;
      } else if (std::isinf(x)) {
        ++(x > 0 ? s.positive_infinity : s.negative_infinity);
      } else {
        const double value = x == 0 ? 0.0 : x;  // -0 is +0 in the extremes.
        if (x == 0) ++s.zero;
        if (!(s.min <= value)) s.min = value;
        if (!(s.max >= value)) s.max = value;
        if (!(s.absmax >= std::fabs(value))) s.absmax = std::fabs(value);
        const volatile double square = x * x;  // Volatile: never fused, whatever the flags.
        sums.lane[i % 16] += x;
        squares.lane[i % 16] += square;
      }
    }
    s.sum += sums.total();
    s.sum_of_squares += squares.total();
  }
  if (std::isnan(s.sum)) s.sum = kNan;
  return s;
}

}  // namespace gradstore::kernels
