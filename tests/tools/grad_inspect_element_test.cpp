#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>

#include "core/small_float.h"
#include "element_text.h"

namespace gradstore::inspect {
namespace {

template <typename T>
std::string text_of(DType dtype, T value) {
  return element_text(dtype, std::as_bytes(std::span(&value, 1)));
}

// Which of all finite elements lies nearest to `value`; the even one of two.
std::uint16_t nearest(double value, double (*decode)(std::uint16_t), std::uint16_t infinity) {
  const auto magnitude = std::abs(value);
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (decode(middle) <= magnitude ? low : high) = middle;
  }
  const auto to_low = magnitude - decode(low);
  // Infinity stands where the next finite element would be.
  const auto to_high =
      high == infinity ? 2 * decode(low) - decode(static_cast<std::uint16_t>(low - 1)) - magnitude
                       : decode(high) - magnitude;
  const bool take_low = to_low < to_high || (to_low == to_high && low % 2 == 0);
  const auto bits = take_low ? low : high;
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

void expect_all_read_back(DType dtype, double (*decode)(std::uint16_t), std::uint16_t infinity,
                          std::size_t longest) {
  for (unsigned code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    if ((bits & 0x7fff) >= infinity) continue;
    const auto text = text_of(dtype, bits);
    ASSERT_EQ(nearest(std::strtod(text.c_str(), nullptr), decode, infinity), bits) << text;
    ASSERT_LE(text.size(), longest) << text;
  }
}

TEST(ElementTextTest, EveryFloat16ReadsBack) {
  expect_all_read_back(
      DType::float16,
      [](std::uint16_t bits) { return decode(small_float_of(DType::float16), bits); }, 0x7c00, 11);
}

TEST(ElementTextTest, EveryBfloat16ReadsBack) {
  expect_all_read_back(
      DType::bfloat16,
      [](std::uint16_t bits) { return decode(small_float_of(DType::bfloat16), bits); }, 0x7f80, 10);
}

TEST(ElementTextTest, EveryFloat8ReadsBack) {
  for (const auto dtype : {DType::float8_e5m2, DType::float8_e4m3fn, DType::float8_e5m2fnuz,
                           DType::float8_e4m3fnuz, DType::float8_e8m0fnu}) {
    const auto format = small_float_of(dtype);
    for (unsigned code = 0; code < 256; ++code) {
      const auto value = decode(format, code);
      const auto text = text_of(dtype, static_cast<std::uint8_t>(code));
      if (!std::isfinite(value)) {
        EXPECT_EQ(text, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        continue;
      }
      const auto read = std::strtod(text.c_str(), nullptr);
      EXPECT_EQ(std::signbit(read), std::signbit(value)) << text;
      for (unsigned other = 0; other < 256; ++other) {  // None lies nearer.
        const auto there = decode(format, other);
        if (there == value || !std::isfinite(there)) continue;
        EXPECT_LT(std::abs(read - value), std::abs(read - there)) << text << ' ' << there;
      }
    }
  }
  EXPECT_EQ(text_of<std::uint8_t>(DType::float8_e4m3fn, 0x7e), "450");
}

TEST(ElementTextTest, ElementsThatAreNotOneNumber) {
  EXPECT_EQ(text_of(DType::complex64, std::array{1.5f, -2.0f}), "1.5-2j");
  EXPECT_EQ(text_of(DType::complex128, std::array{0.0, 0.25}), "0+0.25j");
  EXPECT_EQ(text_of(DType::complex32, std::array<std::uint16_t, 2>{0x3c00, 0x7e00}), "1+nanj");
  EXPECT_EQ(text_of(DType::boolean, std::uint8_t{1}), "true");
  EXPECT_EQ(text_of(DType::uint64, std::uint64_t{1} << 63), "9223372036854775808");
  EXPECT_EQ(text_of(DType::bits16, std::uint16_t{0xabc}), "0xabc");
  const std::array parts{1.5f, -2.0f};
  EXPECT_EQ(element_json(DType::complex64, std::as_bytes(std::span(parts))).dump(), "[1.5,-2.0]");
}

TEST(ElementTextTest, NoDigitTooMany) {
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0x2e66), "0.1");
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0x3555), "0.3333");
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0x7bff), "65500");
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0x0001), "6e-08");
  EXPECT_EQ(text_of<std::uint16_t>(DType::bfloat16, 0x3dcd), "0.1");
  EXPECT_EQ(text_of<std::uint16_t>(DType::bfloat16, 0xbf80), "-1");
  EXPECT_EQ(text_of(DType::float32, 0.1f), "0.1");
  EXPECT_EQ(text_of(DType::float64, 0.1), "0.1");
  EXPECT_EQ(text_of(DType::float32, 16777216.0f), "16777216");
}

TEST(ElementTextTest, SpecialValues) {
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0x8000), "-0");
  EXPECT_EQ(text_of<std::uint16_t>(DType::float16, 0xfe00), "nan");
  EXPECT_EQ(text_of<std::uint16_t>(DType::bfloat16, 0xff80), "-inf");
  EXPECT_EQ(text_of(DType::float32, std::nanf("")), "nan");
  EXPECT_EQ(text_of(DType::float64, HUGE_VAL), "inf");
}

TEST(ElementTextTest, IntegersAreExact) {
  EXPECT_EQ(text_of<std::int8_t>(DType::int8, -128), "-128");
  EXPECT_EQ(text_of<std::int16_t>(DType::int16, -2), "-2");
  EXPECT_EQ(text_of<std::int32_t>(DType::int32, 7), "7");
  EXPECT_EQ(text_of<std::int64_t>(DType::int64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(text_of<std::uint8_t>(DType::uint8, 200), "200");
}

TEST(ElementTextTest, JsonIsTheExactValue) {
  const std::uint16_t half = 0x2e66;
  EXPECT_EQ(element_json(DType::float16, std::as_bytes(std::span(&half, 1))).get<double>(),
            0.0999755859375);
  const std::int64_t large = INT64_MAX;
  EXPECT_EQ(element_json(DType::int64, std::as_bytes(std::span(&large, 1))).dump(),
            "9223372036854775807");
}

}  // namespace
}  // namespace gradstore::inspect
