#include "core/layout.h"

#include <bit>
#include <cstdio>
#include <limits>

#include "core/utf8.h"
#include "gradstore/error.h"

namespace gradstore {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::corrupt, "Layout record: " + what);
}

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

std::uint64_t multiplied(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > kMost / b) refuse("the bytes of a slice overflow");
  return a * b;
}

std::uint64_t added(std::uint64_t a, std::uint64_t b) {
  if (a > kMost - b) refuse("the bytes of a slice overflow");
  return a + b;
}

void validate_sparse(const ParamSpec& param, const SliceSpec& slice) {
  if (slice.sparse->sparse_dims > slice.shape.size() || slice.padding != 0 ||
      !std::has_single_bit(slice.sparse->capacity)) {
    refuse("a sparse slice of " + printable(param.name) + " contradicts itself");
  }
}

void validate_alias(const Layout& layout, const SliceSpec& slice, std::uint64_t number) {
  const auto of = *slice.alias_of;
  const auto agree = [&slice](const SliceSpec& other) {
    return slice.dtype == other.dtype && slice.shape == other.shape &&
           slice.padding == other.padding && slice.sparse == other.sparse;
  };
  if (of >= number || layout.slices[of].alias_of || !agree(layout.slices[of])) {
    refuse("a slice of " + printable(layout.params[slice.param].name) +
           " shares the memory of one that it cannot share");
  }
}

void validate_slice(const Layout& layout, std::uint64_t number) {
  const auto& slice = layout.slices[number];
  const auto& param = layout.params[slice.param];
  const auto elements = num_elements(slice.shape);
  if (size_of(slice.dtype) == 0) refuse("unknown dtype of a slice of " + printable(param.name));
  if (slice.sparse) validate_sparse(param, slice);
  num_bytes(slice);
  if (slice.begin > slice.end || slice.end > num_elements(param.shape)) {
    refuse("a slice of " + printable(param.name) + " lies outside the param");
  }
  if (slice.padding > elements || slice.end - slice.begin != elements - slice.padding) {
    refuse("range and shape of a slice of " + printable(param.name) + " disagree");
  }
  if (slice.alias_of) validate_alias(layout, slice, number);
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

SparseParts sparse_parts(const SliceSpec& slice) {
  constexpr std::uint64_t kHeaderBytes = 2 * sizeof(std::uint64_t);
  constexpr std::uint64_t kAlignment = 64;
  const auto aligned = [](std::uint64_t offset) {
    return added(offset, kAlignment - 1) / kAlignment * kAlignment;
  };
  const auto& sparse = *slice.sparse;
  SparseParts parts;
  parts.header = {0, kHeaderBytes};
  parts.indices = {aligned(kHeaderBytes),
                   multiplied(multiplied(sparse.sparse_dims, sparse.capacity), 8)};
  parts.entry_bytes = multiplied(num_elements(std::span(slice.shape).subspan(sparse.sparse_dims)),
                                 size_of(slice.dtype));
  parts.values = {aligned(added(parts.indices.offset, parts.indices.length)),
                  multiplied(parts.entry_bytes, sparse.capacity)};
  return parts;
}

std::uint64_t sparse_capacity(std::uint64_t entries) {
  constexpr auto kLargest = std::uint64_t{1} << 62;
  if (entries > kLargest) refuse("a slice has too many entries");
  return std::bit_ceil(entries);
}

std::uint64_t num_bytes(const SliceSpec& slice) {
  if (!slice.sparse) return multiplied(num_elements(slice.shape), size_of(slice.dtype));
  const auto parts = sparse_parts(slice);
  return added(parts.values.offset, parts.values.length);
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
      validate_slice(layout, next_slice);
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
    while (!part.empty()) {
      const auto point = first_code_point(part);
      const auto character = part.substr(0, point ? point->length : 1);
      if (!point || is_unprintable(point->value)) {
        append_escaped(text, character);
      } else {
        if (character == "\"" || character == "\\") text += '\\';
        text += character;
      }
      part.remove_prefix(character.size());
    }
  };
  if (name.size() <= kLongest) {
    add(name);
  } else {
    // Not inside a character.
    const auto is_continuation = [name](std::size_t i) {
      return (static_cast<unsigned char>(name[i]) & 0xc0) == 0x80;
    };
    auto head = kLongest / 2;
    for (int i = 0; i < 3 && is_continuation(head); ++i) --head;
    auto tail = name.size() - kLongest / 4;
    for (int i = 0; i < 3 && is_continuation(tail); ++i) ++tail;
    add(name.substr(0, head));
    text += "...(" + std::to_string(name.size()) + " bytes)...";
    add(name.substr(tail));
  }
  return text + "\"";
}

}  // namespace gradstore
