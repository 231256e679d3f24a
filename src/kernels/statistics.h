// One-pass statistics of a slice's elements, with run-time dispatch over the instruction sets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "gradstore/dtype.h"

namespace gradstore::kernels {

/// Of the elements as numbers. Moments and extremes are over finite ones only, so that one NaN does
/// not hide the rest; NaN and infinities are counted apart. Integers count as numbers (rounded to
/// f64 beyond 2^53), booleans as 0 and 1. A complex element is two numbers, its parts: the sum of
/// squares is that of the absolute values. Dtypes without numbers_per_element() have none.
struct Statistics {
  std::uint64_t count = 0;  ///< All numbers: elements times numbers_per_element().
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t zero = 0;                                    ///< +0 and -0.
  double min = std::numeric_limits<double>::quiet_NaN();     ///< Never -0. NaN: no finite element.
  double max = std::numeric_limits<double>::quiet_NaN();     ///< Never -0. NaN: no finite element.
  double absmax = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no finite element.
  double sum = 0;             ///< Infinite or NaN if adding in f64 overflowed.
  double sum_of_squares = 0;  ///< Infinite if adding in f64 overflowed.

  // NaN is unequal to itself: compare bit for bit instead.
  bool operator==(const Statistics&) const = default;
};

/// Gathers the statistics of one slice whose bytes arrive in pieces, in order.
///
/// The result is a pure function of dtype and bytes, bit for bit: it depends neither on how the
/// bytes were cut, nor on the machine's instruction set, nor on the calling thread's rounding and
/// flush-to-zero modes. For that the sums have one fixed order (Note [Order of summation]).
/// Copyable, so that a running result can be kept; not safe to call concurrently.
class StatisticsStream {
 public:
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kChunkElements = 65'536;

  /// Errors: Error{internal} `dtype` is outside the enum.
  explicit StatisticsStream(DType dtype);

  /// `bytes` must hold whole elements (parts of complex ones); any alignment. Padding elements must
  /// be left out. Errors: Error{internal} `bytes` does not hold whole elements.
  void add(std::span<const std::byte> bytes);

  /// Of all elements added so far; more may be added afterwards.
  Statistics result() const;

 private:
  // Note [Order of summation]
  //
  //   1. The slice is cut into chunks of 65 536 elements, counted from its first; the last may be
  //      shorter. A chunk has 16 lanes, each starting at +0.
  //   2. The chunk's elements are taken in order. Element i is converted to f64, x, and lane
  //      i mod 16 becomes lane + x, for the squares lane + x * x: both operations rounded to f64,
  //      never fused. NaN and infinities are left out.
  //   3. At the chunk's end lane j becomes lane[j] + lane[j + 8] for j < 8, then likewise with 4,
  //      2 and 1. Lane 0 is the chunk's sum.
  //   4. Chunk sums are added in order, starting from +0. If overflow made that NaN, it is reported
  //      as the quiet NaN of std::numeric_limits.
  //
  // Rounding is to nearest, subnormals are kept. Adding +0 to a lane changes nothing, because a
  // lane is never -0: left-out elements may as well be added as +0.

  DType dtype_;        // Of a part of an element where that is complex.
  Statistics so_far_;  // Sums: of finished chunks. Extremes: may be -0. absmax: not kept.
  std::array<double, kLanes> lane_sums_{};  // Of the chunk that element so_far_.count falls in.
  std::array<double, kLanes> lane_squares_{};
};

}  // namespace gradstore::kernels
