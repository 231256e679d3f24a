#include "kernels/statistics.h"

// Scalable vectors cannot be array elements or class members: those machines use NEON or scalar
// code.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_TARGET_INCLUDE "kernels/statistics.cpp"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/ensure.h"
#include "core/small_float.h"

#ifndef GRADSTORE_KERNELS_STATISTICS_ONCE
#define GRADSTORE_KERNELS_STATISTICS_ONCE
namespace gradstore::kernels {
namespace {

constexpr std::size_t kLanes = StatisticsStream::kLanes;

// Elements that are widened, tallied and summed while they are in the L1 cache. Small enough for
// 32-bit counters.
constexpr std::size_t kBlockElements = 2048;
static_assert(kBlockElements % kLanes == 0);

// Where a block's elements go.
struct Accumulator {
  Statistics& tally;  // Counts and extremes.
  std::array<double, kLanes>& sums;
  std::array<double, kLanes>& squares;
};

// Stored 16-bit floats, distinct from each other and from uint16_t.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Boolean {
  std::uint8_t byte;
};
template <DType kDType>
struct Float8 {
  std::uint8_t bits;
};

// Every value of an 8-bit float, by its bits.
template <DType kDType>
constexpr std::array<float, 256> kFloat8Values = [] {
  std::array<float, 256> values{};
  for (std::uint32_t bits = 0; bits < values.size(); ++bits) {
    values[bits] = static_cast<float>(decode(small_float_of(kDType), bits));
  }
  return values;
}();

// What a complex element consists of; every other dtype is its own part.
constexpr DType part_of(DType dtype) {
  switch (dtype) {
    case DType::complex32: return DType::float16;
    case DType::complex64: return DType::float32;
    case DType::complex128: return DType::float64;
    default: return dtype;
  }
}

}  // namespace
}  // namespace gradstore::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace gradstore::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class Number>
constexpr Number kInfinity = std::numeric_limits<Number>::infinity();

// At most one group of 16 elements, so that whole groups are whole vectors on every target.
template <class Number>
using Vector = hn::CappedTag<Number, kLanes>;

// ---- Widening: every dtype becomes float or double, exactly (int64: rounded). ----

template <class Stored, class Number>
Number widened(Stored value) {
  return static_cast<Number>(value);
}

template <>
inline float widened<Boolean, float>(Boolean value) {
  return value.byte != 0 ? 1.0f : 0.0f;
}

template <>
inline float widened<BFloat16, float>(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

// Hardware conversions are absent on some targets and Highway's emulation loses infinities.
template <>
inline float widened<Float16, float>(Float16 value) {
  constexpr std::uint32_t kRebias = 112u << 23;  // Exponent bias 15 -> 127.
  constexpr std::uint32_t kSmallestNormal = 113u << 23;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + kRebias;
  // A subnormal is put behind an implicit 1, which is then subtracted: exact.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>((magnitude << 13) + kSmallestNormal) -
                                   std::bit_cast<float>(kSmallestNormal));
  const std::uint32_t is_subnormal = 0u - std::uint32_t{magnitude < 0x400u};  // Masks vectorise.
  const std::uint32_t is_not_finite = 0u - std::uint32_t{magnitude >= 0x7c00u};
  const std::uint32_t bits =
      (subnormal & is_subnormal) | ((normal + (kRebias & is_not_finite)) & ~is_subnormal);
  return std::bit_cast<float>(bits | ((value.bits & 0x8000u) << 16));
}

template <class Stored, class Number, DType kDType>
Number widened(Float8<kDType> value) {
  return kFloat8Values<kDType>[value.bits];
}

// ---- Counts and extremes. ----

template <class Number>
void merge_extremes(Number min, Number max, Statistics& tally) {
  if (min > max) return;  // No finite element.
  tally.min = std::fmin(tally.min, static_cast<double>(min));
  tally.max = std::fmax(tally.max, static_cast<double>(max));
}

// The common case. Returns false, having changed nothing, if some element is not finite.
template <class Number>
bool tally_if_all_finite(const Number* numbers, std::size_t count, Statistics& tally) {
  const Vector<Number> d;
  const hn::RebindToUnsigned<decltype(d)> d_counter;
  auto zeros = hn::Zero(d_counter);
  auto min = hn::Set(d, kInfinity<Number>);
  auto max = hn::Set(d, -kInfinity<Number>);
  auto differences = hn::Zero(d);  // x - x is +0, or NaN if x is not finite.
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, numbers + i);
    differences = hn::Or(differences, hn::Sub(x, x));
    // A true mask is the integer -1.
    zeros = hn::Sub(zeros, hn::BitCast(d_counter, hn::VecFromMask(d, hn::Eq(x, hn::Zero(d)))));
    min = hn::Min(min, x);
    max = hn::Max(max, x);
  }
  if (!hn::AllTrue(d, hn::Eq(differences, hn::Zero(d)))) return false;

  tally.zero += hn::GetLane(hn::SumOfLanes(d_counter, zeros));
  merge_extremes(hn::GetLane(hn::MinOfLanes(d, min)), hn::GetLane(hn::MaxOfLanes(d, max)), tally);
  return true;
}

template <class Number>
void tally_mixed(const Number* numbers, std::size_t count, Statistics& tally) {
  const Vector<Number> d;
  const auto infinity = hn::Set(d, kInfinity<Number>);
  const auto negative_infinity = hn::Set(d, -kInfinity<Number>);
  auto min = infinity;
  auto max = negative_infinity;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, numbers + i);
    tally.nan += hn::CountTrue(d, hn::IsNaN(x));
    tally.positive_infinity += hn::CountTrue(d, hn::Eq(x, infinity));
    tally.negative_infinity += hn::CountTrue(d, hn::Eq(x, negative_infinity));
    tally.zero += hn::CountTrue(d, hn::Eq(x, hn::Zero(d)));
    const auto finite = hn::IsFinite(x);
    min = hn::Min(min, hn::IfThenElse(finite, x, infinity));
    max = hn::Max(max, hn::IfThenElse(finite, x, negative_infinity));
  }
  merge_extremes(hn::GetLane(hn::MinOfLanes(d, min)), hn::GetLane(hn::MaxOfLanes(d, max)), tally);
}

// ---- Sums: Note [Order of summation], step 2. ----

template <class D>
auto load_as_double(D d, const double* numbers) {
  return hn::LoadU(d, numbers);
}

template <class D>
auto load_as_double(D d, const float* numbers) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), numbers));
}

template <bool kAllFinite, class Number>
void sum_groups(const Number* numbers, std::size_t count, const Accumulator& into) {
  const Vector<double> d;
  constexpr std::size_t kVectorLanes = hn::MaxLanes(Vector<double>());
  constexpr std::size_t kVectors = kLanes / kVectorLanes;
  hn::Vec<Vector<double>> sums[kVectors];
  hn::Vec<Vector<double>> squares[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sums[v] = hn::LoadU(d, into.sums.data() + v * kVectorLanes);
    squares[v] = hn::LoadU(d, into.squares.data() + v * kVectorLanes);
  }
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      auto x = load_as_double(d, numbers + i + v * kVectorLanes);
      if constexpr (!kAllFinite) x = hn::IfThenElseZero(hn::IsFinite(x), x);
      sums[v] = hn::Add(sums[v], x);
      squares[v] = hn::Add(squares[v], hn::Mul(x, x));  // Not MulAdd, which rounds once.
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(sums[v], d, into.sums.data() + v * kVectorLanes);
    hn::StoreU(squares[v], d, into.squares.data() + v * kVectorLanes);
  }
}

// ---- Blocks. ----

// Adds `count` elements, the first of which falls into lane `first_lane`: either whole groups of 16
// from lane 0, or a part of one group.
template <class Stored, class Number>
void add_elements(const std::byte* data, std::size_t count, std::size_t first_lane,
                  const Accumulator& into) {
  alignas(64) Stored copied[kBlockElements];
  const auto* elements = reinterpret_cast<const Stored*>(data);
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(Stored) != 0) {
    std::memcpy(copied, data, count * sizeof(Stored));
    elements = copied;
  }

  alignas(64) Number widened_numbers[kBlockElements];
  const Number* numbers = nullptr;
  std::size_t padding = 0;
  if constexpr (std::is_same_v<Stored, Number>) numbers = elements;
  if (count % kLanes != 0) {
    // The group's other lanes become NaN, which adds to nothing but the count of NaN.
    std::fill_n(widened_numbers, kLanes, std::numeric_limits<Number>::quiet_NaN());
    padding = kLanes - count;
  }
  if (!std::is_same_v<Stored, Number> || padding != 0) {
    for (std::size_t i = 0; i < count; ++i) {
      widened_numbers[first_lane + i] = widened<Stored, Number>(elements[i]);
    }
    numbers = widened_numbers;
  }

  if (tally_if_all_finite(numbers, count + padding, into.tally)) {
    sum_groups<true>(numbers, count + padding, into);
  } else {
    tally_mixed(numbers, count + padding, into.tally);
    sum_groups<false>(numbers, count + padding, into);
    into.tally.nan -= padding;
  }
}

template <DType kDType>
void add_float8(const std::byte* data, std::size_t count, std::size_t first_lane,
                const Accumulator& into) {
  add_elements<Float8<kDType>, float>(data, count, first_lane, into);
}

void add_block(DType dtype, const std::byte* data, std::size_t count, std::size_t first_lane,
               const Accumulator& into) {
  switch (dtype) {
    case DType::float16: return add_elements<Float16, float>(data, count, first_lane, into);
    case DType::bfloat16: return add_elements<BFloat16, float>(data, count, first_lane, into);
    case DType::float32: return add_elements<float, float>(data, count, first_lane, into);
    case DType::float64: return add_elements<double, double>(data, count, first_lane, into);
    case DType::int8: return add_elements<std::int8_t, float>(data, count, first_lane, into);
    case DType::int16: return add_elements<std::int16_t, float>(data, count, first_lane, into);
    case DType::int32: return add_elements<std::int32_t, double>(data, count, first_lane, into);
    case DType::int64: return add_elements<std::int64_t, double>(data, count, first_lane, into);
    case DType::uint8: return add_elements<std::uint8_t, float>(data, count, first_lane, into);
    case DType::boolean: return add_elements<Boolean, float>(data, count, first_lane, into);
    case DType::uint16: return add_elements<std::uint16_t, float>(data, count, first_lane, into);
    case DType::uint32: return add_elements<std::uint32_t, double>(data, count, first_lane, into);
    case DType::uint64: return add_elements<std::uint64_t, double>(data, count, first_lane, into);
    case DType::float8_e5m2: return add_float8<DType::float8_e5m2>(data, count, first_lane, into);
    case DType::float8_e4m3fn:
      return add_float8<DType::float8_e4m3fn>(data, count, first_lane, into);
    case DType::float8_e5m2fnuz:
      return add_float8<DType::float8_e5m2fnuz>(data, count, first_lane, into);
    case DType::float8_e4m3fnuz:
      return add_float8<DType::float8_e4m3fnuz>(data, count, first_lane, into);
    case DType::float8_e8m0fnu:
      return add_float8<DType::float8_e8m0fnu>(data, count, first_lane, into);
    default: return;  // Complex dtypes come as their parts; the rest has no numbers.
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradstore::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradstore::kernels {
namespace {

HWY_EXPORT(add_block);

// Gives the calling thread IEEE arithmetic for a scope. Training jobs flush subnormals to zero
// (torch.set_flush_denormal), and a new thread inherits that from its creator.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t callers_;
};

// Note [Order of summation], steps 3 and 4. Not inlined: arithmetic of the caller's own might be
// moved out of the scope of its DefaultFloatEnvironment.
HWY_NOINLINE void add_lanes(std::array<double, kLanes> lanes, double& sum) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  sum += lanes[0];
  if (std::isnan(sum)) sum = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

StatisticsStream::StatisticsStream(DType dtype) : dtype_(part_of(dtype)) {
  ensure(size_of(dtype) != 0, "statistics of an unknown dtype");
}

void StatisticsStream::add(std::span<const std::byte> bytes) {
  const std::size_t element_size = size_of(dtype_);
  ensure(bytes.size() % element_size == 0, "statistics of a part of an element");
  if (numbers_per_element(dtype_) == 0) return;
  const DefaultFloatEnvironment environment;
  const Accumulator into{so_far_, lane_sums_, lane_squares_};

  while (!bytes.empty()) {
    const std::size_t position = so_far_.count % kChunkElements;
    const std::size_t first_lane = position % kLanes;
    std::size_t count =
        std::min({bytes.size() / element_size, kChunkElements - position, kBlockElements});
    if (first_lane != 0) {
      count = std::min(count, kLanes - first_lane);
    } else if (count > kLanes) {
      count -= count % kLanes;
    }

    HWY_DYNAMIC_DISPATCH(add_block)(dtype_, bytes.data(), count, first_lane, into);
    so_far_.count += count;
    bytes = bytes.subspan(count * element_size);

    if (position + count == kChunkElements) {
      add_lanes(std::exchange(lane_sums_, {}), so_far_.sum);
      add_lanes(std::exchange(lane_squares_, {}), so_far_.sum_of_squares);
    }
  }
}

Statistics StatisticsStream::result() const {
  const DefaultFloatEnvironment environment;
  Statistics result = so_far_;
  add_lanes(lane_sums_, result.sum);
  add_lanes(lane_squares_, result.sum_of_squares);
  result.absmax = std::fmax(std::fabs(result.min), std::fabs(result.max));
  if (result.min == 0) result.min = 0;  // From -0.
  if (result.max == 0) result.max = 0;
  return result;
}

}  // namespace gradstore::kernels
#endif
