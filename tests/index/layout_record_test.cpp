#include "index/layout_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "index/damaged_record.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

// Every case that a layout can hold.
Layout varied_layout() {
  Layout layout;
  layout.groups = {{-1}, {std::numeric_limits<std::int64_t>::max(), false}, {0}};
  layout.params = {
      {"decoder/w", 0, DType::float32, Presence::captured, {2, 3}},
      {std::string("\0\xff any \xc3 bytes", 13), 0, DType::bfloat16, Presence::absent, {5}},
      {"", 1, DType::int64, Presence::not_captured, {}},
      {"scalar", 2, DType::float64, Presence::captured, {}},
      {"empty", 2, DType::uint8, Presence::captured, {4, 0, 7}},
      {"sparse", 2, DType::complex64, Presence::captured, {9, 2}},
      {"tied", 2, DType::float8_e4m3fn, Presence::captured, {3}},
  };
  layout.slices = {
      {0, 0, DType::float16, {4}, 0, 3, 1},
      {0, 1, DType::float16, {4}, 3, 6, 1},
      {3, 0, DType::float64, {}, 0, 1, 0},
      {4, 0, DType::uint8, {4, 0, 7}, 0, 0, 0},
      {5, 0, DType::complex64, {9, 2}, 0, 18, 0, SparseSpec{1, 4}},
      {5, 1, DType::complex64, {9, 2}, 0, 18, 0, SparseSpec{1, 4}, 4},
      {6, 0, DType::float8_e4m3fn, {3}, 0, 3, 0},
      {6, 1, DType::float8_e4m3fn, {3}, 0, 3, 0, {}, 6},
  };
  return layout;
}

Layout small_layout() {
  Layout layout;
  layout.kind = LayoutKind::state;
  layout.groups = {{0}};
  layout.params = {{"w", 0, DType::float32, Presence::captured, {6}}};
  layout.slices = {{0, 0, DType::float32, {6}, 0, 6, 0}};
  return layout;
}

Layout decoded(const std::string& bytes) { return decode_layout(bytes_of(bytes)); }

TEST(LayoutRecordTest, LayoutRoundTrips) {
  EXPECT_EQ(decoded(encode(varied_layout())), varied_layout());
  EXPECT_EQ(decoded(encode(sample_layout(100))), sample_layout(100));
}

TEST(LayoutRecordTest, EmptyLayoutRoundTrips) { EXPECT_EQ(decoded(encode(Layout{})), Layout{}); }

TEST(LayoutRecordTest, BytesAreReadAtAnyAlignment) {
  const auto bytes = encode(varied_layout());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string shifted = std::string(shift, '\0') + bytes;
    EXPECT_EQ(decode_layout(bytes_of(shifted).subspan(shift)), varied_layout());
  }
}

TEST(LayoutRecordTest, EqualLayoutsGiveEqualBytes) {
  EXPECT_EQ(encode(varied_layout()), encode(decoded(encode(varied_layout()))));
}

TEST(LayoutRecordTest, EveryFieldChangesTheBytes) {
  const auto bytes = encode(varied_layout());
  const auto changed = [&](auto change) {
    auto layout = varied_layout();
    change(layout);
    return encode(layout) != bytes;
  };
  EXPECT_TRUE(changed([](Layout& l) { l.kind = LayoutKind::state; }));
  EXPECT_TRUE(changed([](Layout& l) { l.groups[1].id = 5; }));
  EXPECT_TRUE(changed([](Layout& l) { l.groups[1].in_store = true; }));
  EXPECT_TRUE(changed([](Layout& l) { l.params[0].name = "decoder/v"; }));
  EXPECT_TRUE(changed([](Layout& l) { l.params[1].dtype = DType::float16; }));
  EXPECT_TRUE(changed([](Layout& l) { l.params[1].presence = Presence::not_captured; }));
  EXPECT_TRUE(changed([](Layout& l) { l.params[0].shape = {3, 2}; }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[0].dtype = DType::bfloat16; }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[0].shape = {2, 2}; }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[0].padding = 2, l.slices[0].end = 2; }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[7].alias_of.reset(); }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[4].sparse = l.slices[5].sparse = {1, 8}; }));
  EXPECT_TRUE(changed([](Layout& l) { l.slices[4].sparse = l.slices[5].sparse = {2, 4}; }));
}

TEST(LayoutRecordTest, RecordHasTheseBytes) {
  EXPECT_EQ(hex(encode(small_layout())),
            "4000000047534c5900000000000032006000080007000c001000140018001c00"
            "2000240028002c003000340038003c004000440048004c005000540058005c00"
            "320000000000000201000000200100001401000000010000f4000000e8000000"
            "dc000000d0000000bc000000a80000009c000000900000007c00000068000000"
            "54000000400000002c000000240000001c000000140000000c00000004000000"
            "0000000000000000000000000000000000000000010000000000000000000000"
            "0000000001000000060000000000000000000000010000000000000000000000"
            "0000000001000000060000000000000000000000010000000100000000000000"
            "0000000001000000030000000100000001000000010000000600000000000000"
            "0000000001000000010000000000000000000000010000000100000001000000"
            "0300000001000000000000000100000077000000010000000100000000000000"
            "000000000100000001000000010000000000000000000000");
}

TEST(LayoutRecordTest, DamageIsSurvived) {
  expect_damage_is_survived(encode(varied_layout()), decode_layout,
                            [](const Layout& layout) { return encode(layout); });
}

TEST(LayoutRecordTest, NewerVersionIsIncompatibleAndNamed) {
  const auto bytes = with_version(encode(small_layout()), 2);
  EXPECT_THAT([&] { decoded(bytes); }, fails_with(ErrorCode::incompatible, "has version 2"));
  EXPECT_THAT([&] { decoded(bytes); }, fails_with(ErrorCode::incompatible, "up to 1"));
}

TEST(LayoutRecordTest, VersionZeroIsCorrupt) {
  EXPECT_THAT([] { decoded(with_version(encode(small_layout()), 0)); },
              fails_with(ErrorCode::corrupt, "no version"));
}

TEST(LayoutRecordTest, AnotherRecordIsCorrupt) {
  EXPECT_THAT(
      [] {
        decoded(encode(sample_row({1, 1}, small_layout())));
      },
      fails_with(ErrorCode::corrupt, "something else"));
}

TEST(LayoutRecordTest, InvalidLayoutIsNotEncoded) {
  auto layout = small_layout();
  layout.slices[0].param = 9;
  EXPECT_THROW(encode(layout), Error);
}

}  // namespace
}  // namespace gradstore::index
