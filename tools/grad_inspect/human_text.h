// Names, sizes and times as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gradstore::inspect {

/// A name of any bytes for a terminal: valid UTF-8 without control characters, marks that turn the
/// direction of text, or invisible characters, which appear as \xHH; a backslash as \\. What is
/// printed can be used as a pattern for the same name, save for * ? [ and commas.
std::string visible_name(std::string_view bytes);

/// The same for a text that may hold names already made visible: backslashes stay single.
std::string visible_text(std::string_view bytes);

/// The same for a text of several lines: newlines stay.
std::string visible_lines(std::string_view bytes);

/// Columns that valid UTF-8 takes on a terminal.
std::size_t display_width(std::string_view text);

/// Cuts the middle out of a text wider than `width` columns.
std::string shortened(const std::string& text, std::size_t width);

std::string with_thousands(std::uint64_t number);                  ///< "1,234,567"
std::string human_bytes(std::uint64_t bytes);                      ///< "768 B", "472.3 MiB"
std::string plural(std::uint64_t number, const std::string& one);  ///< "1 file", "2 files"

/// Six significant digits; "nan", "inf", "-inf".
std::string short_number(double value);

std::string utc_time(std::int64_t unix_ns);  ///< "2026-12-01 02:29:24"
/// "3 s", "2 h 5 min", "12 d".
std::string duration_text(std::int64_t ns);
std::int64_t unix_now_ns();

}  // namespace gradstore::inspect
