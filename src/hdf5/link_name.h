// What a name of any bytes is called inside an HDF5 file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gradstore::hdf5 {

inline constexpr std::size_t kLongestLinkName = 200;  // bytes; h5ls hangs on names of 64 KiB

/// A link name for `name`: UTF-8, 1 to kLongestLinkName bytes, never "." or "..", without '/', NUL
/// and control characters.
///
/// Rule: printable UTF-8 stays as it is. As '%' and two upper-case hex digits stand
///   - '%' and '/',
///   - each byte of a control character (U+0000 to U+001F, U+007F to U+009F),
///   - each byte that is no part of valid UTF-8 (overlong forms and surrogates are not valid),
///   - the dots of the names "." and "..".
/// The empty name is "%~". A name that would be longer than kLongestLinkName is cut before the
/// escape or character that does not fit, then follow "%~" and 16 lower-case hex digits: the
/// XXH3-64 of the whole name.
///
/// Distinct names have distinct links, unless both are cut behind the same text and their XXH3-64
/// are equal: an escape never yields "%~".
std::string link_name(std::string_view name);

}  // namespace gradstore::hdf5
