#include "element_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/ensure.h"
#include "json_text.h"

namespace gradstore::inspect {

namespace {

template <typename T>
T load(std::span<const std::byte> bytes) {
  ensure(bytes.size() == sizeof(T), "one element has its dtype's size");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Calls `f` with the element as a C++ number; 16-bit floats come as double with their digits: how
// many tell all of them apart.
template <typename F>
auto with_value(DType dtype, std::span<const std::byte> bytes, F f) {
  switch (dtype) {
    case DType::float16: return f(float16_to_double(load<std::uint16_t>(bytes)), 11);
    case DType::bfloat16: return f(bfloat16_to_double(load<std::uint16_t>(bytes)), 8);
    case DType::float32: return f(load<float>(bytes), 24);
    case DType::float64: return f(load<double>(bytes), 53);
    case DType::int8: return f(load<std::int8_t>(bytes), 0);
    case DType::int16: return f(load<std::int16_t>(bytes), 0);
    case DType::int32: return f(load<std::int32_t>(bytes), 0);
    case DType::int64: return f(load<std::int64_t>(bytes), 0);
    case DType::uint8: return f(load<std::uint8_t>(bytes), 0);
  }
  ensure(false, "the dtype was checked with the layout");
  return f(0, 0);
}

// Distance of `value` to its neighbours in a binary format of `precision` bits.
double spacing(double value, int precision, int lowest_exponent) {
  return std::ldexp(1.0, std::max(std::ilogb(value) - precision + 1, lowest_exponent));
}

// Tries ever more digits until the text lies nearer to `value` than to its neighbours.
std::string shortest(double value, int precision) {
  const int lowest_exponent = precision == 11 ? -24 : -133;
  const double magnitude = std::abs(value);
  char text[40];
  for (int digits = 1;; ++digits) {
    const auto end =
        std::to_chars(text, text + sizeof text, magnitude, std::chars_format::general, digits).ptr;
    double read = 0;
    std::from_chars(text, end, read);
    const double above = spacing(magnitude, precision, lowest_exponent);
    const bool power_of_two = magnitude == std::ldexp(1.0, std::ilogb(magnitude));
    const double below =
        power_of_two && above > std::ldexp(1.0, lowest_exponent) ? above / 2 : above;
    const double error = read - magnitude;
    if (digits == 17 || (error < above / 2 && -error < below / 2)) {
      // The same digits once more, with or without an exponent, whichever is shorter.
      return {text, std::to_chars(text, text + sizeof text, std::copysign(read, value)).ptr};
    }
  }
}

}  // namespace

double float16_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  } else {
    value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

double bfloat16_to_double(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

std::string element_text(DType dtype, std::span<const std::byte> bytes) {
  return with_value(dtype, bytes, [](auto value, int precision) -> std::string {
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      if (std::isnan(value)) return "nan";
      if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
      if (value == 0) return std::signbit(value) ? "-0" : "0";
      if (precision < 24) return shortest(static_cast<double>(value), precision);
    }
    char text[40];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  });
}

nlohmann::ordered_json element_json(DType dtype, std::span<const std::byte> bytes) {
  return with_value(dtype, bytes, [](auto value, int) -> nlohmann::ordered_json {
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      return number(static_cast<double>(value));
    } else {
      return value;
    }
  });
}

}  // namespace gradstore::inspect
