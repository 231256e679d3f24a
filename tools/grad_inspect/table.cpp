#include "table.h"

#include <algorithm>

#include "core/ensure.h"
#include "human_text.h"

namespace gradstore::inspect {

namespace {

constexpr std::size_t kGap = 2;

std::string blanks(std::size_t count) { return std::string(count, ' '); }

}  // namespace

void Table::add(std::vector<Cell> row) {
  ensure(row.size() <= columns_.size(), "a row has no more cells than the table has columns");
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

void Table::print(std::ostream& out, const Style& style) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(row[c].text));
    }
  }
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (widths[c] > 0) widths[c] = std::max(widths[c], display_width(columns_[c].title));
  }

  const auto print_row = [&](const auto& cell_at) {
    std::string line;
    std::size_t owed = 0;  // Blanks, printed only when text follows.
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (widths[c] == 0) continue;
      const Cell cell = cell_at(c);
      const auto pad = widths[c] - display_width(cell.text);
      const bool right = columns_[c].align == Align::right;
      if (!cell.text.empty()) {
        line += blanks(owed + (right ? pad : 0)) + style.apply(cell.look, cell.text);
        owed = right ? 0 : pad;
      } else {
        owed += widths[c];
      }
      owed += kGap;
    }
    out << line << '\n';
  };
  print_row([&](std::size_t c) { return Cell{columns_[c].title, Look::heading}; });
  for (const auto& row : rows_) {
    print_row([&](std::size_t c) { return row[c]; });
  }
}

void FactList::print(std::ostream& out, const Style& style, std::size_t indent) const {
  std::size_t width = 0;
  for (const auto& fact : facts_) width = std::max(width, display_width(fact.name));
  for (const auto& fact : facts_) {
    out << blanks(indent) << style.apply(Look::dim, fact.name)
        << blanks(width - display_width(fact.name) + kGap)
        << style.apply(fact.value.look, fact.value.text) << '\n';
  }
}

}  // namespace gradstore::inspect
