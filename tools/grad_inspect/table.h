// Text tables: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "terminal.h"

namespace gradstore::inspect {

struct Cell {
  std::string text;  ///< Valid UTF-8 on one line.
  Look look = Look::plain;
};

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// `row` has as many cells as there are columns, or fewer: the rest is empty.
  void add(std::vector<Cell> row);

  bool empty() const { return rows_.empty(); }

  /// Titles and rows. A column without any text in its rows is left out; no line ends in blanks.
  void print(std::ostream& out, const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// "name   value" lines with the values below each other.
class FactList {
 public:
  /// A fact without a name continues the one before it.
  void add(std::string name, Cell value) { facts_.push_back({std::move(name), std::move(value)}); }
  void print(std::ostream& out, const Style& style, std::size_t indent = 0) const;

 private:
  struct Fact {
    std::string name;
    Cell value;
  };
  std::vector<Fact> facts_;
};

}  // namespace gradstore::inspect
