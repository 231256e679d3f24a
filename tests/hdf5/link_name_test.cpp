#include "hdf5/link_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <string>

namespace gradstore::hdf5 {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); }

// Undoes the escapes of a name that was not cut.
std::string unescaped(std::string_view link) {
  if (link == "%~") return "";
  std::string name;
  for (std::size_t i = 0; i < link.size(); ++i) {
    if (link[i] != '%') {
      name += link[i];
      continue;
    }
    EXPECT_TRUE(i + 2 < link.size() && is_hex_digit(link[i + 1]) && is_hex_digit(link[i + 2]))
        << link;
    if (i + 2 >= link.size()) break;
    name += static_cast<char>(std::stoi(std::string(link.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return name;
}

TEST(LinkNameTest, PrintableUtf8StaysReadable) {
  for (const std::string name : {"layers.0.weight", "w", " ", "a b", "a\\b\"c'", "...", ".a",
                                 "caf\xc3\xa9", "\xe2\x88\x82L/", "\xf0\x9f\x94\xa5", "\xc2\xa0",
                                 "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    const std::string readable = name.substr(0, name.find('/'));
    EXPECT_EQ(link_name(readable), readable);
  }
}

TEST(LinkNameTest, LiteralExamplesOfEscapes) {
  const std::map<std::string, std::string> examples{
      {"", "%~"},
      {".", "%2E"},
      {"..", "%2E%2E"},
      {"a/b", "a%2Fb"},
      {"50%", "50%25"},
      {"%2F", "%252F"},
      {"%~", "%25~"},
      {std::string("a\0b", 3), "a%00b"},
      {"tab\tnewline\n", "tab%09newline%0A"},
      {"\x7f", "%7F"},
      {"\xc2\x80|\xc2\x9f", "%C2%80|%C2%9F"},  // C1 controls
      {"\xff\xfe", "%FF%FE"},                  // in no UTF-8
      {"\x80", "%80"},                         // continues nothing
      {"\xc3", "%C3"},                         // ends early
      {"\xe2\x88|", "%E2%88|"},                // ends early
      {"\xc0\xaf", "%C0%AF"},                  // overlong '/'
      {"\xe0\x80\xaf", "%E0%80%AF"},           // overlong '/'
      {"\xf0\x80\x80\xaf", "%F0%80%80%AF"},    // overlong '/'
      {"\xed\xa0\x80", "%ED%A0%80"},           // surrogate
      {"\xf4\x90\x80\x80", "%F4%90%80%80"},    // beyond U+10FFFF
      {"\xf5\x80\x80\x80", "%F5%80%80%80"},    // beyond U+10FFFF
      {"\xe2\xc3\xa9", "%E2\xc3\xa9"},         // a good character behind a bad byte
  };
  for (const auto& [name, link] : examples) EXPECT_EQ(link_name(name), link);
}

TEST(LinkNameTest, LongestNameThatFitsIsNotCut) {
  const std::string fits(kLongestLinkName, 'x');
  EXPECT_EQ(link_name(fits), fits);
  // 32df31caf6566da7: XXH3_64bits() of xxhash.h over 201 times 'x'.
  EXPECT_EQ(link_name(fits + "x"), std::string(182, 'x') + "%~32df31caf6566da7");
}

TEST(LinkNameTest, CutFallsBetweenCharactersAndEscapes) {
  struct Case {
    std::string unit, link_of_unit;
  };
  for (const auto& [unit, link_of_unit] :
       std::array<Case, 4>{{{"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5"},
                            {"\xc3\xa9", "\xc3\xa9"},
                            {"/", "%2F"},
                            {"\xc2\x80", "%C2%80"}}}) {
    for (std::size_t shift = 0; shift < 6; ++shift) {
      SCOPED_TRACE(link_of_unit + " behind " + std::to_string(shift));
      const std::string before(shift, 'x');
      const std::size_t whole_units = (182 - shift) / link_of_unit.size();
      const std::string kept = before + repeated(link_of_unit, whole_units);
      EXPECT_THAT(link_name(before + repeated(unit, 300)),
                  AllOf(StartsWith(kept + "%~"), SizeIs(kept.size() + 2 + 16)));
    }
  }
}

TEST(LinkNameTest, LongNamesOfEqualBeginningDiffer) {
  const std::string beginning(5000, 'x');
  EXPECT_NE(link_name(beginning + "a"), link_name(beginning + "b"));
  EXPECT_NE(link_name(beginning), link_name(beginning + "x"));
}

TEST(LinkNameTest, NameThatLooksLikeACutOneHasAnotherLink) {
  const auto cut = link_name(std::string(5000, 'x'));
  EXPECT_NE(link_name(cut), cut);
  EXPECT_EQ(link_name("x%~0123456789abcdef"), "x%25~0123456789abcdef");
}

// Random names, half of them of few different and troublesome bytes.
class RandomNames {
 public:
  std::string next() {
    const std::size_t length = random_() % (random_() % 8 == 0 ? 400 : 12);
    const bool troublesome = random_() % 2 == 0;
    std::string name;
    for (std::size_t i = 0; i < length; ++i) {
      name += troublesome ? kTroublesome[random_() % kTroublesome.size()]
                          : static_cast<char>(random_() % 256);
    }
    return name;
  }

 private:
  static constexpr std::string_view kTroublesome{
      "./%~2F5Ea\0\n\xc2\x80\xe2\x88\x82\xf0\x9f\x94\xa5\xff", 21};
  std::mt19937 random_{20240607};
};

TEST(LinkNameTest, DistinctNamesHaveDistinctLinksThatHdf5CanTake) {
  RandomNames names;
  std::map<std::string, std::string> name_of_link;
  for (int i = 0; i < 200'000; ++i) {
    const auto name = names.next();
    const auto link = link_name(name);
    const auto [known, is_new] = name_of_link.emplace(link, name);
    ASSERT_EQ(known->second, name) << "both have the link " << link;
    if (!is_new) continue;

    ASSERT_THAT(link, AllOf(::testing::Not(::testing::IsEmpty()), SizeIs(::testing::Le(200u))));
    ASSERT_NE(link, ".");
    ASSERT_NE(link, "..");
    for (const char c : link) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(byte >= 0x20 && byte != 0x7f && c != '/') << link;
    }
    // Only what is valid UTF-8 without control characters stays as it is, apart from '%'.
    std::string without_escapes = link;
    std::erase(without_escapes, '%');
    ASSERT_EQ(link_name(without_escapes), without_escapes);
    if (link == "%~" || link.find("%~") == std::string::npos) {
      ASSERT_EQ(unescaped(link), name);
    }
  }
}

}  // namespace
}  // namespace gradstore::hdf5
