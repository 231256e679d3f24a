#include "element_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <type_traits>

#include "core/ensure.h"
#include "core/small_float.h"
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

// A value of one of the floating-point formats that C++ has no type for.
struct SmallValue {
  double value;
  SmallFloat format;
};

// An element whose bits stand for no number of their own.
struct Bits {
  std::uint32_t value;
};

// Calls `f` with the element as a number.
template <typename F>
auto with_value(DType dtype, std::span<const std::byte> bytes, F f) {
  const auto code = [bytes] {
    return bytes.size() == 1 ? std::uint32_t{load<std::uint8_t>(bytes)}
                             : std::uint32_t{load<std::uint16_t>(bytes)};
  };
  if (const auto format = small_float_of(dtype); format.bits != 0) {
    return f(SmallValue{decode(format, code()), format});
  }
  switch (dtype) {
    case DType::float32: return f(load<float>(bytes));
    case DType::float64: return f(load<double>(bytes));
    case DType::int8: return f(load<std::int8_t>(bytes));
    case DType::int16: return f(load<std::int16_t>(bytes));
    case DType::int32: return f(load<std::int32_t>(bytes));
    case DType::int64: return f(load<std::int64_t>(bytes));
    case DType::uint8: return f(load<std::uint8_t>(bytes));
    case DType::boolean: return f(load<std::uint8_t>(bytes) != 0);
    case DType::uint16: return f(load<std::uint16_t>(bytes));
    case DType::uint32: return f(load<std::uint32_t>(bytes));
    case DType::uint64: return f(load<std::uint64_t>(bytes));
    default: break;
  }
  ensure(numbers_per_element(dtype) == 0, "the dtype was checked with the layout");
  return f(Bits{code()});
}

// What a complex element consists of; nothing for other dtypes.
std::optional<DType> part_of(DType dtype) {
  switch (dtype) {
    case DType::complex32: return DType::float16;
    case DType::complex64: return DType::float32;
    case DType::complex128: return DType::float64;
    default: return std::nullopt;
  }
}

// Distance of `value` to its neighbours in a binary format of `precision` bits.
double spacing(double value, int precision, int lowest_exponent) {
  return std::ldexp(1.0, std::max(std::ilogb(value) - precision + 1, lowest_exponent));
}

// Tries ever more digits until the text lies nearer to `value` than to its neighbours.
std::string shortest(double value, const SmallFloat& format) {
  const int precision = format.mantissa_bits + 1;
  const int lowest_exponent = 1 - format.bias - format.mantissa_bits;
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

struct TextOf {
  std::string operator()(SmallValue small) const {
    if (!std::isfinite(small.value) || small.value == 0) return (*this)(small.value);
    return shortest(small.value, small.format);
  }
  std::string operator()(Bits bits) const {
    char text[16];
    std::snprintf(text, sizeof text, "0x%02x", bits.value);
    return text;
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  template <typename Number>
  std::string operator()(Number value) const {
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) return "nan";
      if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
      if (value == 0) return std::signbit(value) ? "-0" : "0";
    }
    char text[40];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }
};

struct JsonOf {
  nlohmann::ordered_json operator()(SmallValue small) const { return number(small.value); }
  nlohmann::ordered_json operator()(Bits bits) const { return bits.value; }
  template <typename Number>
  nlohmann::ordered_json operator()(Number value) const {
    if constexpr (std::is_floating_point_v<Number>) {
      return number(static_cast<double>(value));
    } else {
      return value;
    }
  }
};

}  // namespace

std::string element_text(DType dtype, std::span<const std::byte> bytes) {
  const auto part = part_of(dtype);
  if (!part) return with_value(dtype, bytes, TextOf());
  const auto size = size_of(*part);
  const auto imaginary = element_text(*part, bytes.subspan(size));
  const bool has_sign = imaginary.starts_with('-');
  return element_text(*part, bytes.first(size)) + (has_sign ? "" : "+") + imaginary + "j";
}

nlohmann::ordered_json element_json(DType dtype, std::span<const std::byte> bytes) {
  const auto part = part_of(dtype);
  if (!part) return with_value(dtype, bytes, JsonOf());
  const auto size = size_of(*part);
  return {element_json(*part, bytes.first(size)), element_json(*part, bytes.subspan(size))};
}

}  // namespace gradstore::inspect
