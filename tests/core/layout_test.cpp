#include "core/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/fails_with.h"

namespace gradstore {
namespace {

using testing::fails_with;
using Shape = std::vector<std::uint64_t>;

// Two groups; a param in two slices of which the second is padded, a scalar, one without gradient,
// an empty one and one that was left out.
Layout valid_layout() {
  Layout layout;
  layout.groups = {{0}, {7}};
  layout.params = {{"w", 0, DType::float32, Presence::captured, {3, 5}},
                   {"scale", 0, DType::float64, Presence::captured, {}},
                   {"frozen", 0, DType::float32, Presence::absent, {4}},
                   {"empty", 1, DType::bfloat16, Presence::captured, {0, 9}},
                   {"skipped", 1, DType::float16, Presence::not_captured, {2}}};
  layout.slices = {{0, 0, DType::float32, {8}, 0, 8, 0},
                   {0, 1, DType::float32, {8}, 8, 15, 1},
                   {1, 0, DType::float64, {}, 0, 1, 0},
                   {3, 0, DType::bfloat16, {0, 9}, 0, 0, 0}};
  return layout;
}

auto refuses(const std::function<void(Layout&)>& damage) {
  return [damage] {
    Layout layout = valid_layout();
    damage(layout);
    validate(layout);
  };
}

auto as_corrupt(const std::string& why) { return fails_with(ErrorCode::corrupt, why); }

TEST(LayoutTest, ValidLayoutsPass) {
  EXPECT_NO_THROW(validate(valid_layout()));
  EXPECT_NO_THROW(validate(Layout{}));
}

TEST(LayoutTest, UnknownKindIsCorrupt) {
  EXPECT_THAT(refuses([](Layout& l) { l.kind = static_cast<LayoutKind>(0); }),
              as_corrupt("unknown kind"));
  EXPECT_THAT(refuses([](Layout& l) { l.kind = static_cast<LayoutKind>(3); }),
              as_corrupt("unknown kind"));
}

TEST(LayoutTest, ParamsBelongToGroupsAndAreSortedByThem) {
  EXPECT_THAT(refuses([](Layout& l) { l.params[4].group = 2; }),
              as_corrupt("\"skipped\" is in no group"));
  EXPECT_THAT(refuses([](Layout& l) { l.params[0].group = 1; }), as_corrupt("sorted by group"));
}

TEST(LayoutTest, UnknownDtypesAreCorrupt) {
  const auto unknown = static_cast<DType>(200);
  EXPECT_THAT(refuses([&](Layout& l) { l.params[2].dtype = unknown; }), as_corrupt("\"frozen\""));
  EXPECT_THAT(refuses([&](Layout& l) { l.slices[2].dtype = unknown; }), as_corrupt("\"scale\""));
}

TEST(LayoutTest, OverflowingShapesAreCorrupt) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_THAT(refuses([&](Layout& l) { l.params[2].shape = {kHuge, 2}; }), as_corrupt("overflow"));
  EXPECT_THAT(refuses([&](Layout& l) { l.slices[0].shape = {kHuge, 4}; }), as_corrupt("overflow"));
  EXPECT_THAT(refuses([&](Layout& l) { l.slices[0].shape = {kHuge}; }),
              as_corrupt("bytes of a slice overflow"));
}

TEST(LayoutTest, SlicesLieInsideTheirParamAndMatchTheirRange) {
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].end = 16; }), as_corrupt("outside the param"));
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].begin = 16; }), as_corrupt("outside the param"));
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].begin = 9; }), as_corrupt("disagree"));
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].padding = 0; }), as_corrupt("disagree"));
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].padding = 9; }), as_corrupt("disagree"));
}

TEST(LayoutTest, SlicesAreInOrderAndComplete) {
  EXPECT_THAT(refuses([](Layout& l) { l.slices[1].position = 2; }),
              as_corrupt("slices of \"w\" are out of order"));
  EXPECT_THAT(refuses([](Layout& l) { std::swap(l.slices[0], l.slices[1]); }),
              as_corrupt("out of order"));
  EXPECT_THAT(refuses([](Layout& l) { l.slices[3].param = 5; }), as_corrupt("\"empty\""));
  EXPECT_THAT(refuses([](Layout& l) {
                l.slices.push_back({9, 0, DType::int8, {1}, 0, 1, 0});
              }),
              as_corrupt("not sorted by param"));
}

// valid_layout() with the first slice sparse, the second sharing it.
Layout shared_sparse_layout() {
  Layout layout = valid_layout();
  layout.params[0].shape = {8};
  layout.slices[0].sparse = SparseSpec{1, 4};
  layout.slices[1] = layout.slices[0];
  layout.slices[1].position = 1;
  layout.slices[1].alias_of = 0;
  return layout;
}

TEST(LayoutTest, SparseSlicesHaveACapacityAndDimensionsThatTheyHave) {
  EXPECT_NO_THROW(validate(shared_sparse_layout()));
  const auto refuses_sparse = [](const std::function<void(SliceSpec&)>& damage) {
    return [damage] {
      Layout layout = shared_sparse_layout();
      damage(layout.slices[0]);
      validate(layout);
    };
  };
  EXPECT_THAT(refuses_sparse([](SliceSpec& s) { s.sparse->sparse_dims = 2; }),
              as_corrupt("contradicts itself"));
  EXPECT_THAT(refuses_sparse([](SliceSpec& s) { s.sparse->capacity = 3; }),
              as_corrupt("contradicts itself"));
  EXPECT_THAT(refuses_sparse([](SliceSpec& s) { s.sparse->capacity = 0; }),
              as_corrupt("contradicts itself"));
  EXPECT_THAT(refuses_sparse([](SliceSpec& s) { s.sparse->capacity = std::uint64_t{1} << 62; }),
              as_corrupt("overflow"));
}

TEST(LayoutTest, AliasesShareAnEarlierSliceThatIsTheSame) {
  const auto refuses_alias = [](const std::function<void(Layout&)>& damage) {
    return [damage] {
      Layout layout = shared_sparse_layout();
      damage(layout);
      validate(layout);
    };
  };
  for (const std::uint64_t of : {1, 2, 3, 4, 1000}) {
    EXPECT_THAT(refuses_alias([of](Layout& l) { l.slices[1].alias_of = of; }),
                as_corrupt("cannot share"));
  }
  EXPECT_THAT(refuses_alias([](Layout& l) { l.slices[1].dtype = DType::int32; }),
              as_corrupt("cannot share"));
  EXPECT_THAT(refuses_alias([](Layout& l) { l.slices[1].sparse.reset(); }),
              as_corrupt("cannot share"));
}

TEST(SparsePartsTest, LieBehindEachOtherAligned) {
  SliceSpec slice;
  slice.dtype = DType::float16;
  slice.shape = {100, 50, 3};
  slice.sparse = SparseSpec{2, 8};
  const auto parts = sparse_parts(slice);
  EXPECT_EQ(parts.header.offset, 0u);
  EXPECT_EQ(parts.indices.offset, 64u);
  EXPECT_EQ(parts.indices.length, 2u * 8 * 8);
  EXPECT_EQ(parts.values.offset, 192u);
  EXPECT_EQ(parts.entry_bytes, 6u);
  EXPECT_EQ(num_bytes(slice), 192u + 48);
  EXPECT_EQ(sparse_capacity(0), 1u);
  EXPECT_EQ(sparse_capacity(5), 8u);
  EXPECT_EQ(sparse_capacity(8), 8u);
}

TEST(LayoutTest, PresenceMatchesTheSlices) {
  EXPECT_THAT(refuses([](Layout& l) { l.params[0].presence = Presence::absent; }),
              as_corrupt("presence and slices of \"w\" disagree"));
  EXPECT_THAT(refuses([](Layout& l) { l.params[2].presence = Presence::captured; }),
              as_corrupt("presence and slices of \"frozen\" disagree"));
}

TEST(NumElementsTest, ScalarIsOneEmptyIsZeroAndTheLimitIs63Bits) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(num_elements(Shape{}), 1u);
  EXPECT_EQ(num_elements(Shape{3, 0, 5}), 0u);
  EXPECT_EQ(num_elements(Shape{kLargest}), kLargest);
  EXPECT_EQ(num_elements(Shape{std::uint64_t{1} << 31, std::uint64_t{1} << 31}),
            std::uint64_t{1} << 62);
  EXPECT_THAT([] { num_elements(Shape{kLargest + 1}); }, as_corrupt("overflow"));
  EXPECT_THAT(
      [] {
        num_elements(Shape{std::uint64_t{1} << 32, std::uint64_t{1} << 31});
      },
      as_corrupt("overflow"));
}

TEST(NumBytesTest, CountsPaddingAndElementSize) {
  EXPECT_EQ(num_bytes(valid_layout().slices[1]), 32u);
  EXPECT_EQ(num_bytes(valid_layout().slices[2]), 8u);
  EXPECT_EQ(num_bytes(valid_layout().slices[3]), 0u);
}

TEST(PrintableTest, PlainNamesAreQuoted) {
  EXPECT_EQ(printable(""), "\"\"");
  EXPECT_EQ(printable("decoder/w"), "\"decoder/w\"");
  EXPECT_EQ(printable("größe"), "\"größe\"");
}

TEST(PrintableTest, WhatCouldConfuseATerminalIsEscaped) {
  EXPECT_EQ(printable("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(printable(std::string_view("\0\n\x1b[2J\x7f", 7)), R"("\x00\x0a\x1b[2J\x7f")");
}

TEST(PrintableTest, WhatIsNoUtf8OrNotSeenIsEscaped) {
  EXPECT_EQ(printable("a\xff\xc3"), R"("a\xff\xc3")");
  EXPECT_EQ(printable("\xc2\x9b 31m"), R"("\xc2\x9b 31m")");  // CSI in one character
  EXPECT_EQ(printable("\xe2\x80\xae"), R"("\xe2\x80\xae")");  // turns the text around
}

TEST(PrintableTest, TheCutFallsBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 100; ++i) name += "ä€";
  for (const auto* before : {"", "x", "xx", "xxx", "xxxx"}) {
    EXPECT_THAT(printable(before + name), ::testing::Not(::testing::HasSubstr("\\x")));
  }
}

TEST(PrintableTest, LongNamesAreCutInTheMiddle) {
  const std::string longest(160, 'x');
  EXPECT_EQ(printable(longest), '"' + longest + '"');
  const std::string name = std::string(80, 'a') + std::string(1000, 'm') + std::string(40, 'z');
  EXPECT_EQ(printable(name),
            '"' + std::string(80, 'a') + "...(1120 bytes)..." + std::string(40, 'z') + '"');
}

}  // namespace
}  // namespace gradstore
