#include "core/layout.h"

#include <cstdio>
#include <limits>

#include "gradstore/error.h"

namespace gradstore {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::corrupt, "Layout record: " + what);
}

void validate_slice(const Layout& layout, const SliceSpec& slice) {
  const auto& param = layout.params[slice.param];
  const auto elements = num_elements(slice.shape);
  if (size_of(slice.dtype) == 0) refuse("unknown dtype of a slice of " + printable(param.name));
  num_bytes(slice);
  if (slice.begin > slice.end || slice.end > num_elements(param.shape)) {
    refuse("a slice of " + printable(param.name) + " lies outside the param");
  }
  if (slice.padding > elements || slice.end - slice.begin != elements - slice.padding) {
    refuse("range and shape of a slice of " + printable(param.name) + " disagree");
  }
}

}  // namespace

std::uint64_t num_elements(std::span<const std::uint64_t> shape) {
  std::uint64_t product = 1;
  for (const auto extent : shape) {
    if (extent == 0) return 0;
    if (product > std::numeric_limits<std::int64_t>::max() / extent) refuse("a shape overflows");
    product *= extent;
  }
  return product;
}

std::uint64_t num_bytes(const SliceSpec& slice) {
  const auto elements = num_elements(slice.shape);
  const auto size = size_of(slice.dtype);
  if (size != 0 && elements > std::numeric_limits<std::int64_t>::max() / size) {
    refuse("the bytes of a slice overflow");
  }
  return elements * size;
}

void validate(const Layout& layout) {
  if (layout.kind != LayoutKind::gradients && layout.kind != LayoutKind::state)
    refuse("unknown kind");
  std::size_t next_slice = 0;
  for (std::size_t p = 0; p < layout.params.size(); ++p) {
    const auto& param = layout.params[p];
    if (param.group >= layout.groups.size()) refuse(printable(param.name) + " is in no group");
    if (p > 0 && param.group < layout.params[p - 1].group) refuse("params are not sorted by group");
    if (size_of(param.dtype) == 0) refuse("unknown dtype of " + printable(param.name));
    num_elements(param.shape);
    std::uint32_t count = 0;
    for (; next_slice < layout.slices.size() && layout.slices[next_slice].param == p;
         ++next_slice) {
      if (layout.slices[next_slice].position != count++) {
        refuse("slices of " + printable(param.name) + " are out of order");
      }
      validate_slice(layout, layout.slices[next_slice]);
    }
    if ((param.presence == Presence::captured) != (count > 0)) {
      refuse("presence and slices of " + printable(param.name) + " disagree");
    }
  }
  if (next_slice != layout.slices.size()) refuse("slices are not sorted by param");
}

std::string printable(std::string_view name) {
  constexpr std::size_t kLongest = 160;
  std::string text = "\"";
  const auto add = [&text](std::string_view part) {
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text += '\\';
        text += c;
      } else if (byte < 0x20 || byte == 0x7f) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\x%02x", byte);
        text += escape;
      } else {
        text += c;
      }
    }
  };
  if (name.size() <= kLongest) {
    add(name);
  } else {
    add(name.substr(0, kLongest / 2));
    text += "...(" + std::to_string(name.size()) + " bytes)...";
    add(name.substr(name.size() - kLongest / 4));
  }
  return text + "\"";
}

}  // namespace gradstore
