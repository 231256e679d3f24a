// Elements of a slice, read from its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "archive/file_reader.h"
#include "json_text.h"
#include "terminal.h"

namespace gradstore::inspect {

/// Which elements of a slice, counted from its first; half-open, as in Python.
struct ElementRange {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;  ///< Nothing: to the slice's end.
};

/// "A:B", "A:", ":B" or ":". Errors: Error{invalid_argument}.
ElementRange parse_element_range(const std::string& text);

struct SliceValues {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::byte> bytes;
};

/// Reads the whole slice, keeps what `range` covers (cut at the slice's end), and checks the
/// digest. Cost: one read of the slice; memory for the range and 1 MiB. Errors: those of
/// FileReader::read_slice().
SliceValues read_values(const archive::FileReader& file, std::size_t number,
                        const ElementRange& range);

/// Rows of values behind the position of their first; padding is marked.
void print_values(std::ostream& out, const Style& style, const SliceSpec& slice,
                  const SliceValues& values, std::size_t indent);

Json values_json(const SliceSpec& slice, const SliceValues& values);

}  // namespace gradstore::inspect
