#include "slice_values.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "core/digest.h"
#include "element_text.h"
#include "gradstore/error.h"
#include "human_text.h"

namespace gradstore::inspect {

namespace {

constexpr std::uint64_t kPieceBytes = 1u << 20;
constexpr std::size_t kLineWidth = 96;

std::optional<std::uint64_t> parse_bound(const std::string& whole, std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw Error(ErrorCode::invalid_argument,
                "--values " + whole + ": expected A:B with two numbers, for example 0:64");
  }
  return number;
}

std::span<const std::byte> element_at(const SliceValues& values, std::size_t size,
                                      std::uint64_t i) {
  return std::span(values.bytes).subspan((i - values.begin) * size, size);
}

std::uint64_t columns_for(std::size_t width) {
  // A power of two, so that the positions at the left are easy to count with.
  std::uint64_t columns = 16;
  while (columns > 1 && columns * (width + 2) > kLineWidth) columns /= 2;
  return columns;
}

}  // namespace

ElementRange parse_element_range(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                "--values " + text + ": expected A:B with two numbers, for example 0:64");
  }
  const auto view = std::string_view(text);
  ElementRange range{parse_bound(text, view.substr(0, colon)).value_or(0),
                     parse_bound(text, view.substr(colon + 1))};
  if (range.end && *range.end < range.begin) {
    throw Error(ErrorCode::invalid_argument,
                "--values " + text + ": the end lies before the beginning");
  }
  return range;
}

SliceValues read_values(const archive::FileReader& file, std::size_t number,
                        const ElementRange& range) {
  const auto& slice = file.layout().slices[number];
  const auto size = size_of(slice.dtype);
  // Of a sparse slice: the values of its entries.
  const auto count = slice.sparse ? file.fingerprints()[number].entries *
                                        sparse_parts(slice).entry_bytes / size_of(slice.dtype)
                                  : num_elements(slice.shape);
  const auto first_value = slice.sparse ? sparse_parts(slice).values.offset : 0;
  SliceValues values;
  values.begin = std::min(range.begin, count);
  values.end = std::min(range.end.value_or(count), count);
  values.bytes.resize((values.end - values.begin) * size);

  const auto& extent = file.placement().slice_extents[number];
  const auto wanted_begin = first_value + values.begin * size;
  const auto wanted_end = first_value + values.end * size;
  std::vector<std::byte> piece(std::min(kPieceBytes, extent.length));
  DigestStream digest;
  for (std::uint64_t at = 0; at < extent.length; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), extent.length - at));
    file.read(extent.offset + at, piece);
    digest.add(piece);
    const auto from = std::max(at, wanted_begin);
    const auto to = std::min(at + piece.size(), wanted_end);
    if (from < to) {
      std::ranges::copy(std::span(piece).subspan(from - at, to - from),
                        values.bytes.begin() + static_cast<std::ptrdiff_t>(from - wanted_begin));
    }
  }
  if (digest.digest() != file.fingerprints()[number].digest) {
    throw Error(ErrorCode::corrupt,
                file.path().string() + ": " + archive::describe_slice(file.layout(), number) +
                    " is damaged (its digest differs); its values are not shown");
  }
  return values;
}

void print_values(std::ostream& out, const Style& style, const SliceSpec& slice,
                  const SliceValues& values, std::size_t indent) {
  const auto size = size_of(slice.dtype);
  std::size_t width = 0;
  for (auto i = values.begin; i < values.end; ++i) {
    width = std::max(width, element_text(slice.dtype, element_at(values, size, i)).size());
  }
  const auto columns = columns_for(width);
  const auto position_width = std::to_string(values.end).size();
  const auto first_padding = slice.sparse ? values.end : slice.end - slice.begin;
  for (auto row = values.begin; row < values.end; row += columns) {
    const auto position = std::to_string(row);
    out << std::string(indent + position_width - position.size(), ' ')
        << style.apply(Look::dim, position + ":");
    for (auto i = row; i < std::min(row + columns, values.end); ++i) {
      const auto text = element_text(slice.dtype, element_at(values, size, i));
      const bool finite = text != "nan" && text != "inf" && text != "-inf";
      out << std::string(2 + width - text.size(), ' ')
          << style.apply(i >= first_padding ? Look::dim
                         : finite           ? Look::plain
                                            : Look::bad,
                         text);
    }
    if (std::min(row + columns, values.end) > first_padding) {
      out << "  " << style.apply(Look::dim, "(padding from " + std::to_string(first_padding) + ")");
    }
    out << '\n';
  }
}

Json values_json(const SliceSpec& slice, const SliceValues& values) {
  const auto size = size_of(slice.dtype);
  Json json{{"begin", values.begin}, {"end", values.end}, {"elements", Json::array()}};
  for (auto i = values.begin; i < values.end; ++i) {
    json["elements"].push_back(element_json(slice.dtype, element_at(values, size, i)));
  }
  return json;
}

}  // namespace gradstore::inspect
