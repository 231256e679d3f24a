#include "gradstore/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/small_float.h"

namespace gradstore {
namespace {

TEST(DTypeTest, DiskValuesStayWhatTheyAre) {
  EXPECT_EQ(static_cast<int>(DType::float16), 1);
  EXPECT_EQ(static_cast<int>(DType::uint8), 9);
  EXPECT_EQ(static_cast<int>(DType::boolean), 10);
  EXPECT_EQ(static_cast<int>(DType::complex128), 16);
  EXPECT_EQ(static_cast<int>(DType::float8_e8m0fnu), 21);
  EXPECT_EQ(static_cast<int>(DType::bits16), 27);
  EXPECT_EQ(static_cast<int>(DType::int7), 41);
}

TEST(DTypeTest, EveryDiskValueHasANameOfItsOwnAndASize) {
  std::set<std::string_view> names;
  for (int code = 0; code < 256; ++code) {
    const auto dtype = dtype_from_code(static_cast<std::uint8_t>(code));
    EXPECT_EQ(dtype.has_value(), code >= 1 && code <= 41) << code;
    if (!dtype) continue;
    EXPECT_TRUE(names.insert(name_of(*dtype)).second) << name_of(*dtype);
    EXPECT_GT(size_of(*dtype), 0u);
    EXPECT_LE(numbers_per_element(*dtype), 2u);
  }
  EXPECT_EQ(name_of(static_cast<DType>(200)), "invalid");
  EXPECT_EQ(size_of(static_cast<DType>(0)), 0u);
}

// Published examples: OCP 8-bit floating point specification, table 1; microscaling formats, 5.4.1.
TEST(SmallFloatTest, LandmarksOfEachFormatHaveTheirPublishedValues) {
  const auto value = [](DType dtype, std::uint32_t code) {
    return decode(small_float_of(dtype), code);
  };
  EXPECT_EQ(value(DType::float8_e4m3fn, 0x7e), 448);
  EXPECT_EQ(value(DType::float8_e4m3fn, 0x08), std::ldexp(1, -6));
  EXPECT_EQ(value(DType::float8_e4m3fn, 0x01), std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(value(DType::float8_e4m3fn, 0xff)));
  EXPECT_EQ(value(DType::float8_e5m2, 0x7b), 57344);
  EXPECT_EQ(value(DType::float8_e5m2, 0x01), std::ldexp(1, -16));
  EXPECT_EQ(value(DType::float8_e5m2, 0xfc), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(value(DType::float8_e5m2, 0x7d)));
  EXPECT_EQ(value(DType::float8_e4m3fnuz, 0x7f), 240);
  EXPECT_TRUE(std::isnan(value(DType::float8_e4m3fnuz, 0x80)));
  EXPECT_EQ(value(DType::float8_e5m2fnuz, 0x7f), 57344);
  EXPECT_EQ(value(DType::float8_e8m0fnu, 0), std::ldexp(1, -127));
  EXPECT_EQ(value(DType::float8_e8m0fnu, 127), 1);
  EXPECT_TRUE(std::isnan(value(DType::float8_e8m0fnu, 0xff)));
  EXPECT_EQ(value(DType::float16, 0x3555), 1365.0 / 4096);
  EXPECT_EQ(value(DType::bfloat16, 0xbf80), -1);
  EXPECT_EQ(small_float_of(DType::float32).bits, 0);
}

}  // namespace
}  // namespace gradstore
