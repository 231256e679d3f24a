#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/utf8.h"
#include "human_text.h"
#include "json_text.h"

namespace gradstore::inspect {
namespace {

TEST(HumanTextTest, ControlBytesAndBadBytesAreShownNotObeyed) {
  EXPECT_EQ(visible_name("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(visible_name("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(visible_name("\xc2\x9b"), "\\xc2\\x9b");                    // CSI as one character
  EXPECT_EQ(visible_name("\xe2\x80\xae"), "\\xe2\\x80\\xae");           // right-to-left override
  EXPECT_EQ(visible_name("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(visible_name("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(visible_name("\xe6\xa2"), "\\xe6\\xa2");                    // cut short
  EXPECT_EQ(visible_name("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(visible_name("\xe6\xa2\xaf\xe5\xba\xa6 \xc3\xa9"), "\xe6\xa2\xaf\xe5\xba\xa6 \xc3\xa9");
}

TEST(HumanTextTest, BackslashIsDoubledInNamesOnly) {
  EXPECT_EQ(visible_name("a\\x1b"), "a\\\\x1b");
  EXPECT_EQ(visible_text("a\\x1b\n"), "a\\x1b\\x0a");
  EXPECT_EQ(visible_lines("a\nb\x1b"), "a\nb\\x1b");
}

TEST(HumanTextTest, WidthCountsColumns) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\xe6\xa2\xaf\xe5\xba\xa6"), 4u);  // two wide ones
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);                 // combining accent
}

TEST(HumanTextTest, LongNamesLoseTheirMiddle) {
  EXPECT_EQ(shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shortened("abcdefghijk", 7), "abc\xe2\x80\xa6ijk");
  const std::string wide = "\xe6\xa2\xaf\xe6\xa2\xaf\xe6\xa2\xaf\xe6\xa2\xaf\xe6\xa2\xaf";
  EXPECT_LE(display_width(shortened(wide, 7)), 7u);
  EXPECT_TRUE(is_utf8(shortened(wide, 7)));
}

TEST(HumanTextTest, SizesAndTimes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(495'242'445), "472.3 MiB");
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(1'234'567), "1,234,567");
  EXPECT_EQ(duration_text(3'000'000'000), "3 s");
  EXPECT_EQ(duration_text(7'500'000'000'000), "2 h 5 min");
  EXPECT_EQ(utc_time(1'764'556'164'999'999'999), "2025-12-01 02:29:24");
  EXPECT_EQ(short_number(0.1), "0.1");
  EXPECT_EQ(short_number(-std::nan("")), "nan");
}

TEST(JsonTextTest, NumbersThatAreNotFiniteAreStrings) {
  EXPECT_EQ(number(std::nan("")), "nan");
  EXPECT_EQ(number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(number(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(number(0.5), 0.5);
}

TEST(JsonTextTest, NameKeepsItsTrueBytes) {
  Json good;
  put_name(good, "a\x1b\xc3\xa9");
  EXPECT_EQ(good.dump(-1, ' ', true), R"({"name":"a\u001b\u00e9"})");
  Json bad;
  put_name(bad, "\xff\xfe");
  EXPECT_EQ(bad.dump(), R"({"name":"\\xff\\xfe","name_base64":"//4="})");
}

TEST(JsonTextTest, Base64PadsAsTheStandardSays) {  // RFC 4648, section 10
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace gradstore::inspect
