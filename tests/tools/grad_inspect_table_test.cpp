#include <gtest/gtest.h>

#include <sstream>

#include "table.h"

namespace gradstore::inspect {
namespace {

std::string printed(const Table& table, bool colours = false) {
  std::ostringstream out;
  table.print(out, Style(colours));
  return out.str();
}

TEST(TableTest, NumbersStandToTheRightAndNoLineEndsInBlanks) {
  Table table({{"NAME"}, {"BYTES", Table::Align::right}, {"NOTE"}});
  table.add({{"a"}, {"1,024"}, {}});
  table.add({{"long name"}, {"7"}, {"seen"}});
  EXPECT_EQ(printed(table),
            "NAME       BYTES  NOTE\n"
            "a          1,024\n"
            "long name      7  seen\n");
}

TEST(TableTest, ColumnsWithoutTextAreLeftOut) {
  Table table({{"RANK", Table::Align::right}, {"NAME"}, {"NOTE"}});
  table.add({{}, {"a"}, {}});
  EXPECT_EQ(printed(table), "NAME\na\n");
}

TEST(TableTest, WidthIsThatOnTheScreen) {
  Table table({{"N"}, {"X"}});
  table.add({{"\xe6\xa2\xaf"}, {"1"}});
  table.add({{"ab"}, {"2"}});
  EXPECT_EQ(printed(table), "N   X\n\xe6\xa2\xaf  1\nab  2\n");
}

TEST(TableTest, ColourDoesNotMoveColumns) {
  Table table({{"N"}, {"X"}});
  table.add({{"a", Look::bad}, {"1"}});
  EXPECT_EQ(printed(table, true), "\x1b[1mN\x1b[0m  \x1b[1mX\x1b[0m\n\x1b[1;31ma\x1b[0m  1\n");
}

}  // namespace
}  // namespace gradstore::inspect
