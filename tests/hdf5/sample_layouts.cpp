#include "sample_layouts.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace gradstore::testing {

namespace {

// All that this version knows.
std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (std::uint8_t code = 1; dtype_from_code(code); ++code) all.push_back(*dtype_from_code(code));
  return all;
}

void fill(std::vector<std::byte>& file, const archive::Extent& extent, std::size_t part) {
  for (std::size_t j = 0; j < extent.length; ++j) {
    const std::size_t value = 31 * part + 7 * j + 13 * (j / 256) + 3;
    file[extent.offset + j] = static_cast<std::byte>(value % 256);
  }
}

void put(std::vector<std::byte>& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

LayoutMaker& LayoutMaker::group(std::int64_t id) {
  layout_.groups.push_back({id});
  return *this;
}

LayoutMaker& LayoutMaker::param(const std::string& name, Presence presence) {
  ParamSpec param;
  param.name = name;
  param.group = static_cast<std::uint32_t>(layout_.groups.size() - 1);
  param.presence = presence;
  param.shape = {0};
  layout_.params.push_back(param);
  return *this;
}

LayoutMaker& LayoutMaker::slice(DType dtype, std::vector<std::uint64_t> shape,
                                std::uint64_t padding) {
  auto& param = layout_.params.back();
  SliceSpec slice;
  slice.param = static_cast<std::uint32_t>(layout_.params.size() - 1);
  const bool first = layout_.slices.empty() || layout_.slices.back().param != slice.param;
  slice.position = first ? 0 : layout_.slices.back().position + 1;
  slice.dtype = dtype;
  slice.begin = param.shape[0];
  slice.end = slice.begin + num_elements(shape) - padding;
  slice.padding = padding;
  slice.shape = std::move(shape);
  param.shape[0] = slice.end;
  layout_.slices.push_back(slice);
  return *this;
}

LayoutMaker& LayoutMaker::sparse(DType dtype, std::vector<std::uint64_t> shape,
                                 std::uint32_t sparse_dims, std::uint64_t capacity) {
  slice(dtype, std::move(shape));
  layout_.slices.back().sparse = {sparse_dims, capacity};
  return *this;
}

LayoutMaker& LayoutMaker::alias(std::uint64_t of) {
  const SliceSpec other = layout_.slices.at(of);
  slice(other.dtype, other.shape, other.padding);
  layout_.slices.back().sparse = other.sparse;
  layout_.slices.back().alias_of = of;
  return *this;
}

Layout gradients_of_every_kind() {
  LayoutMaker maker;
  maker.group(0);
  for (const auto dtype : all_dtypes()) {
    maker.param("layers.0." + std::string(name_of(dtype)));
    maker.slice(dtype, {3, 5}).slice(dtype, {}).slice(dtype, {4, 0, 2}).slice(dtype, {7}, 2);
  }
  maker.param("large").slice(DType::float32, {128, 128}).slice(DType::bfloat16, {5, 7, 1001});
  maker.param("absent", Presence::absent).param("not captured", Presence::not_captured);

  const std::uint64_t next = maker.layout().slices.size();
  maker.param("sparse").sparse(DType::float32, {1000, 7}, 1, 16);
  maker.param("sparse in all").sparse(DType::bfloat16, {5, 6}, 2, 1).sparse(DType::int8, {0}, 1, 2);
  maker.param("sparse of nothing").sparse(DType::float64, {}, 0, 4);
  maker.param("shared").alias(0).alias(next - 1).alias(next);

  maker.group(-7);  // Without params.
  maker.group(1);
  maker.param("layers.0.float32").slice(DType::float64, {2, 2});  // As in group 0.
  for (const std::string_view name : {"", ".", "..", "a/b", "50%", "\xf0\x9f\x94\xa5 grad",
                                      "\xff\xfe", "tab\tnewline\n", " ", "..."}) {
    maker.param(std::string(name)).slice(DType::int32, {2});
  }
  maker.param(std::string("nul\0nul", 7)).slice(DType::uint8, {1});
  maker.param(std::string(5000, 'x')).slice(DType::uint8, {2});
  maker.param(std::string(5000, 'x') + "y").slice(DType::uint8, {3});

  maker.group(2);  // Of one captured, empty slice.
  maker.param("empty").slice(DType::float16, {0});
  maker.group(3).param("many slices");
  for (std::uint64_t i = 0; i < 20; ++i) maker.slice(DType::float16, {i});
  maker.group(4);
  for (int i = 0; i < 300; ++i) {
    maker.param("block." + std::to_string(i)).slice(DType::float32, {1 + std::uint64_t(i) % 40});
  }
  return maker.layout();
}

Layout state_of_every_kind() {
  LayoutMaker maker(LayoutKind::state);
  maker.group(0);
  for (const auto dtype : all_dtypes()) {
    maker.param("optimizer/" + std::string(name_of(dtype))).slice(dtype, {3, 4});
  }
  maker.param("step").slice(DType::int64, {});
  maker.param("rng").slice(DType::uint8, {5056});
  maker.param("nothing").slice(DType::float32, {2, 0});
  maker.param("tied/weight").alias(1);
  maker.param("sparse").sparse(DType::float16, {100}, 1, 8);
  return maker.layout();
}

Layout params_of_one_slice(std::uint32_t count, std::uint64_t elements) {
  LayoutMaker maker;
  maker.group(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    maker.param("layers." + std::to_string(i) + ".weight").slice(DType::float32, {elements});
  }
  return maker.layout();
}

archive::PartSizes sample_sizes() {
  return {.metadata = 0, .layout = 12345, .fingerprints = 70001, .manifest = 8192};
}

std::string sample_manifest() { return "{\"note\": \"caf\xc3\xa9\"}"; }

std::vector<std::byte> sample_file(const archive::Skeleton& skeleton) {
  const auto& placement = skeleton.placement;
  std::vector<std::byte> file(placement.file_length);
  put(file, placement.metadata.offset, skeleton.metadata);
  fill(file, placement.layout, 0);
  fill(file, placement.fingerprints, 1);
  std::string manifest = sample_manifest();
  manifest.resize(placement.manifest.length, ' ');
  put(file, placement.manifest.offset, std::as_bytes(std::span(manifest)));
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < placement.slice_extents.size(); ++i) {
    const auto& extent = placement.slice_extents[i];
    if (extent.offset < end) continue;  // An alias.
    fill(file, extent, 3 + i);
    end = extent.end();
  }
  return file;
}

}  // namespace gradstore::testing
