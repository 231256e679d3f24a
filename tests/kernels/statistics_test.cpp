#include "kernels/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "gradstore/error.h"
#include "kernels/statistics_reference.h"

namespace gradstore::kernels {
namespace {

using testing::Property;
using testing::Throws;

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

// Every disk value that stands for numbers, so that a dtype to come is tested too.
const std::vector<DType> kAllDTypes = [] {
  std::vector<DType> all;
  for (std::uint8_t code = 1; dtype_from_code(code); ++code) {
    if (numbers_per_element(*dtype_from_code(code)) > 0) all.push_back(*dtype_from_code(code));
  }
  return all;
}();
constexpr std::size_t kChunk = StatisticsStream::kChunkElements;
constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Stored>
Bytes bytes_of(const std::vector<Stored>& elements) {
  Bytes bytes(elements.size() * sizeof(Stored));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

Statistics statistics_of(DType dtype, std::span<const std::byte> bytes) {
  StatisticsStream stream(dtype);
  stream.add(bytes);
  return stream.result();
}

// Every field as its bits, so that NaN and the sign of zero count.
std::array<std::uint64_t, 10> bits_of(const Statistics& s) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  return {
      s.count,     s.nan,       s.positive_infinity, s.negative_infinity, s.zero,
      bits(s.min), bits(s.max), bits(s.absmax),      bits(s.sum),         bits(s.sum_of_squares)};
}

testing::AssertionResult same_bits(const Statistics& actual, const Statistics& expected) {
  constexpr const char* kNames[] = {
      "count",  "nan", "positive_infinity", "negative_infinity", "zero", "min", "max",
      "absmax", "sum", "sum_of_squares"};
  const auto a = bits_of(actual);
  const auto e = bits_of(expected);
  auto result = a == e ? testing::AssertionSuccess() : testing::AssertionFailure();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != e[i]) result << kNames[i] << " is " << a[i] << ", expected " << e[i] << "; ";
  }
  return result;
}

// Any bit pattern: in floats also NaN with payloads, infinities and subnormals.
Bytes random_bits(DType dtype, std::size_t count, Random& random) {
  Bytes bytes(count * size_of(dtype));
  std::generate(bytes.begin(), bytes.end(),
                [&] { return static_cast<std::byte>(random() & 0xff); });
  return bytes;
}

// Like gradients: finite floats of many magnitudes, +0 and -0; whatever they are for integers.
Bytes random_gradients(DType dtype, std::size_t count, Random& random) {
  Bytes bytes = random_bits(dtype, count, random);
  const std::size_t size = size_of(dtype);
  const bool floating = dtype == DType::float16 || dtype == DType::bfloat16 ||
                        dtype == DType::float32 || dtype == DType::float64;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* element = bytes.data() + i * size;
    if (random() % 16 == 0) {
      std::fill_n(element, size, std::byte{0});
      if (random() % 2 == 0 && floating) element[size - 1] = std::byte{0x80};
    } else if (floating) {
      element[size - 1] &= std::byte{0xbf};  // Clears the exponent's top bit: magnitude below 2.
    }
  }
  return bytes;
}

// Mostly finite, one special value here and there.
Bytes random_mixture(DType dtype, std::size_t count, Random& random) {
  Bytes bytes = random_gradients(dtype, count, random);
  const Bytes noise = random_bits(dtype, count, random);
  const std::size_t size = size_of(dtype);
  for (std::size_t i = random() % 3000; i < count; i += 1 + random() % 6000) {
    std::memcpy(bytes.data() + i * size, noise.data() + i * size, size);
    if (random() % 2 == 0) {
      bytes[i * size + size - 1] |= std::byte{0x7f};
      if (size > 1) bytes[i * size + size - 2] |= std::byte{0xf0};
    }
  }
  return bytes;
}

std::vector<Bytes> samples(DType dtype, std::size_t count, Random& random) {
  return {random_bits(dtype, count, random), random_gradients(dtype, count, random),
          random_mixture(dtype, count, random)};
}

// Adds `bytes` in pieces of random length, each copied to a random alignment.
Statistics statistics_in_pieces(DType dtype, std::span<const std::byte> bytes, Random& random) {
  const std::size_t size = size_of(dtype);
  StatisticsStream stream(dtype);
  while (!bytes.empty()) {
    const std::size_t longest = std::size_t{1} << (random() % 18);
    const std::size_t count = std::min<std::size_t>(bytes.size() / size, random() % (longest + 1));
    const std::size_t misalignment = random() % 64;
    Bytes piece(misalignment + count * size);
    std::copy_n(bytes.begin(), count * size,
                piece.begin() + static_cast<std::ptrdiff_t>(misalignment));
    stream.add(std::span(piece).subspan(misalignment));
    bytes = bytes.subspan(count * size);
  }
  return stream.result();
}

// Every instruction set this machine can run, one a test instance.
class StatisticsTest : public testing::TestWithParam<std::int64_t> {
 protected:
  StatisticsTest() { use(GetParam()); }
  ~StatisticsTest() override { use(0); }

  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);  // 0: no longer pretend.
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, StatisticsTest,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

TEST_P(StatisticsTest, ShortSlicesAgreeWithTheReferenceBitForBit) {
  constexpr std::uint64_t kSeed = 1;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  for (const DType dtype : kAllDTypes) {
    for (std::size_t count = 0; count <= 200; ++count) {
      for (const Bytes& bytes : samples(dtype, count, random)) {
        ASSERT_TRUE(same_bits(statistics_of(dtype, bytes), reference_statistics(dtype, bytes)))
            << name_of(dtype) << " x " << count;
      }
    }
  }
}

TEST_P(StatisticsTest, SlicesAroundChunkBoundariesAgreeWithTheReferenceBitForBit) {
  constexpr std::uint64_t kSeed = 2;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  for (const DType dtype : kAllDTypes) {
    for (const std::size_t count : {2047ul, 2048ul, 2049ul, kChunk - 17, kChunk - 1, kChunk,
                                    kChunk + 1, kChunk + 16, 2 * kChunk - 1, 2 * kChunk + 33}) {
      for (const Bytes& bytes : samples(dtype, count, random)) {
        ASSERT_TRUE(same_bits(statistics_of(dtype, bytes), reference_statistics(dtype, bytes)))
            << name_of(dtype) << " x " << count;
      }
    }
  }
}

TEST_P(StatisticsTest, ResultDoesNotDependOnTheCutOrAlignmentOfThePieces) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (const DType dtype : kAllDTypes) {
      const std::size_t count = kChunk + random() % (2 * kChunk);
      for (const Bytes& bytes : samples(dtype, count, random)) {
        ASSERT_TRUE(same_bits(statistics_in_pieces(dtype, bytes, random),
                              reference_statistics(dtype, bytes)))
            << name_of(dtype) << " x " << count;
      }
    }
  }
}

TEST_P(StatisticsTest, OneElementAtATimeIsTheSameAsAllAtOnce) {
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  for (const DType dtype : kAllDTypes) {
    const Bytes bytes = random_mixture(dtype, kChunk + 100, random);
    StatisticsStream stream(dtype);
    const std::size_t size = size_of(dtype);
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      stream.add(std::span(bytes).subspan(at, size));
    }
    EXPECT_TRUE(same_bits(stream.result(), statistics_of(dtype, bytes))) << name_of(dtype);
  }
}

TEST_P(StatisticsTest, EverySixteenBitFloatHasItsExactValue) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const Bytes one = bytes_of(std::vector{static_cast<std::uint16_t>(bits)});
      ASSERT_TRUE(same_bits(statistics_of(dtype, one), reference_statistics(dtype, one)))
          << name_of(dtype) << " " << bits;
    }
  }
}

TEST_P(StatisticsTest, EveryEightBitElementHasItsExactValue) {
  for (const DType dtype : kAllDTypes) {
    if (size_of(dtype) != 1) continue;
    for (std::uint32_t bits = 0; bits <= 0xff; ++bits) {
      const Bytes one{static_cast<std::byte>(bits)};
      ASSERT_TRUE(same_bits(statistics_of(dtype, one), reference_statistics(dtype, one)))
          << name_of(dtype) << " " << bits;
    }
  }
}

TEST_P(StatisticsTest, AComplexElementIsTwoNumbers) {
  const Statistics s =
      statistics_of(DType::complex64, bytes_of(std::vector<float>{3, -4, 0, NAN, kFloatMax, 1}));
  EXPECT_EQ(s.count, 6u);
  EXPECT_EQ(s.nan, 1u);
  EXPECT_EQ(s.zero, 1u);
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, static_cast<double>(kFloatMax));
}

TEST_P(StatisticsTest, ElementsThatAreNoNumbersAreNotCounted) {
  const Statistics s = statistics_of(DType::bits16, Bytes(64, std::byte{7}));
  EXPECT_TRUE(same_bits(s, Statistics{}));
}

// x * x is 1 + 2^-26 + 2^-54. Alone, the last term is rounded away; fused with y * y it rounds up.
TEST_P(StatisticsTest, SquaresAreRoundedBeforeTheyAreAdded) {
  const double x = 1 + std::ldexp(1, -27);
  const double y = std::ldexp(1.25, -27);
  std::vector<double> elements(32, 0.0);
  elements[5] = y;
  elements[5 + 16] = x;  // The same lane.
  const volatile double y_squared = y * y;
  const volatile double x_squared = x * x;
  const double separate = y_squared + x_squared;
  ASSERT_NE(separate, std::fma(x, x, y_squared));

  EXPECT_EQ(statistics_of(DType::float64, bytes_of(elements)).sum_of_squares, separate);
}

TEST_P(StatisticsTest, CallersFloatingPointModesChangeNothing) {
  constexpr std::uint64_t kSeed = 4;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  std::fenv_t callers;
  ASSERT_EQ(std::fegetenv(&callers), 0);
  for (const DType dtype : kAllDTypes) {
    Bytes bytes = random_gradients(dtype, kChunk + 1001, random);
    if (dtype == DType::float32) {  // The last ones are subnormal, all of them.
      for (std::size_t i = kChunk; i < kChunk + 1001; ++i) bytes[4 * i + 2] = bytes[4 * i + 3] = {};
    }
    const Statistics expected = reference_statistics(dtype, bytes);

    std::fesetround(FE_UPWARD);
#if defined(__SSE2__)
    const unsigned int before = _mm_getcsr() | 0x8040u;  // Flush results, take subnormals as zero.
    _mm_setcsr(before);
#endif
    const Statistics actual = statistics_of(dtype, bytes);
    const int rounding_after = std::fegetround();
#if defined(__SSE2__)
    const unsigned int after = _mm_getcsr();
    EXPECT_EQ(after, before) << "The caller's modes were not restored";
#endif
    std::fesetenv(&callers);

    EXPECT_EQ(rounding_after, FE_UPWARD);
    EXPECT_TRUE(same_bits(actual, expected)) << name_of(dtype);
  }
}

TEST_P(StatisticsTest, OneToNSumsToTheFormula) {
  std::vector<std::int32_t> elements(100'000);
  std::iota(elements.begin(), elements.end(), 1);
  const Statistics s = statistics_of(DType::int32, bytes_of(elements));
  EXPECT_EQ(s.count, 100'000u);
  EXPECT_EQ(s.zero, 0u);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 100'000);
  EXPECT_EQ(s.absmax, 100'000);
  EXPECT_EQ(s.sum, 100'000.0 * 100'001 / 2);
  EXPECT_EQ(s.sum_of_squares, 100'000.0 * 100'001 / 2 * 200'001 / 3);
}

TEST_P(StatisticsTest, SpecialValuesAreCountedAndLeftOutOfMomentsAndExtremes) {
  constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> elements{3, NAN,   kFloatInfinity, -4, -kFloatInfinity, -kFloatInfinity,
                                    0, -0.0f, -NAN,           NAN};
  const Statistics s = statistics_of(DType::float32, bytes_of(elements));
  EXPECT_EQ(s.count, 10u);
  EXPECT_EQ(s.nan, 3u);
  EXPECT_EQ(s.positive_infinity, 1u);
  EXPECT_EQ(s.negative_infinity, 2u);
  EXPECT_EQ(s.zero, 2u);
  EXPECT_EQ(s.min, -4);
  EXPECT_EQ(s.max, 3);
  EXPECT_EQ(s.absmax, 4);
  EXPECT_EQ(s.sum, -1);
  EXPECT_EQ(s.sum_of_squares, 25);
}

TEST_P(StatisticsTest, WithoutFiniteElementsExtremesAreNanAndSumsZero) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto expected = [](std::uint64_t nan, std::uint64_t infinite) {
    Statistics s;
    s.count = nan + infinite;
    s.nan = nan;
    s.positive_infinity = infinite;
    return s;
  };
  for (const std::size_t count : {0ul, 1ul, 16ul, 5000ul, kChunk + 5}) {
    SCOPED_TRACE(count);
    EXPECT_TRUE(
        same_bits(statistics_of(DType::float64, bytes_of(std::vector<double>(count, -kNan))),
                  expected(count, 0)));
    EXPECT_TRUE(
        same_bits(statistics_of(DType::float64, bytes_of(std::vector<double>(count, kInfinity))),
                  expected(0, count)));
  }
}

TEST_P(StatisticsTest, ZerosOfEitherSignAreReportedAsPositiveZero) {
  for (const float zero : {0.0f, -0.0f}) {
    for (const std::size_t count : {1ul, 40ul, kChunk}) {
      const Statistics s = statistics_of(DType::float32, bytes_of(std::vector<float>(count, zero)));
      EXPECT_EQ(s.zero, count);
      for (const double value : {s.min, s.max, s.absmax, s.sum, s.sum_of_squares}) {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(value), 0u);
      }
    }
  }
}

TEST_P(StatisticsTest, OverflowOfTheSumsIsDeterministic) {
  constexpr double kHuge = std::numeric_limits<double>::max();
  std::vector<double> elements(64, 0.0);
  elements[0] = elements[16] = kHuge;
  elements[1] = elements[17] = -kHuge;  // +inf in one lane, -inf in another.
  const Bytes bytes = bytes_of(elements);
  const Statistics s = statistics_of(DType::float64, bytes);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(s.sum),
            std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(s.sum_of_squares, kInfinity);
  EXPECT_EQ(s.absmax, kHuge);
  EXPECT_TRUE(same_bits(s, reference_statistics(DType::float64, bytes)));
}

TEST_P(StatisticsTest, ResultMayBeTakenBetweenPieces) {
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  const Bytes bytes = random_mixture(DType::float32, 3 * kChunk, random);
  StatisticsStream stream(DType::float32);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = std::min<std::size_t>(bytes.size() - at, 4 * (random() % 40'000));
    stream.add(std::span(bytes).subspan(at, length));
    at += length;
    ASSERT_TRUE(same_bits(stream.result(),
                          reference_statistics(DType::float32, std::span(bytes).first(at))));
  }
}

TEST(StatisticsErrorTest, PartOfAnElementIsRefusedAndChangesNothing) {
  StatisticsStream stream(DType::float32);
  const Bytes bytes(7);
  EXPECT_THAT([&] { stream.add(bytes); },
              Throws<Error>(Property(&Error::code, ErrorCode::internal)));
  EXPECT_EQ(stream.result().count, 0u);
}

TEST(StatisticsErrorTest, UnknownDtypeIsRefused) {
  EXPECT_THAT([] { StatisticsStream stream(static_cast<DType>(200)); },
              Throws<Error>(Property(&Error::code, ErrorCode::internal)));
}

}  // namespace
}  // namespace gradstore::kernels
