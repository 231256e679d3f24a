// Writes a sample file, and beside it what a reader must find there (check_with_h5py.py):
//
//   write_sample_file gradients|state|nothing <file.h5> <expected.json>
//
// libhdf5 is told that the time is $SAMPLE_TIME, in seconds since 1970.

#include <sys/time.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "hdf5/link_name.h"
#include "hdf5/skeleton_builder.h"
#include "sample_layouts.h"

namespace {

time_t sample_time() {
  const char* text = std::getenv("SAMPLE_TIME");
  return text == nullptr ? 0 : std::atol(text);
}

}  // namespace

// In place of the C library's, for libhdf5 too.
extern "C" int gettimeofday(timeval* now, void*) noexcept {
  *now = {sample_time(), 0};
  return 0;
}
extern "C" time_t time(time_t* now) noexcept {
  if (now != nullptr) *now = sample_time();
  return sample_time();
}

namespace gradstore::testing {
namespace {

using nlohmann::json;

std::string path_of(const Layout& layout, std::size_t param) {
  const auto& spec = layout.params[param];
  const auto link = hdf5::link_name(spec.name);
  if (layout.kind == LayoutKind::state) return "state/" + link;
  return "gradients/" + std::to_string(layout.groups[spec.group].id) + "/" + link;
}

json expected(const Layout& layout, const archive::Placement& placement) {
  json groups = json::array();
  json datasets = json::array();
  if (layout.kind == LayoutKind::state) {
    groups.push_back("state");
  } else {
    groups.push_back("gradients");
    for (const auto& group : layout.groups)
      groups.push_back("gradients/" + std::to_string(group.id));
    for (std::size_t p = 0; p < layout.params.size(); ++p) groups.push_back(path_of(layout, p));
  }
  // `start`: where in its part the dataset begins. `link`: a second path to an object, which
  // programs that list objects do not show again.
  const auto add = [&](const std::string& path, DType dtype,
                       const std::vector<std::uint64_t>& shape, std::uint64_t offset,
                       std::size_t part, std::uint64_t start = 0, bool link = false) {
    datasets.push_back({{"path", path},
                        {"dtype", name_of(dtype)},
                        {"shape", shape},
                        {"offset", offset},
                        {"part", part},
                        {"start", start},
                        {"link", link}});
  };
  json sparse = json::object();
  const auto add_sparse = [&](const std::string& path, const SliceSpec& slice, std::uint64_t offset,
                              std::size_t part, bool link) {
    const auto parts = sparse_parts(slice);
    const auto capacity = slice.sparse->capacity;
    groups.push_back(path);
    sparse[path] = slice.shape;
    std::vector<std::uint64_t> values{capacity};
    values.insert(values.end(), slice.shape.begin() + slice.sparse->sparse_dims, slice.shape.end());
    add(path + "/entries", DType::uint64, {2}, offset, part, 0, link);
    add(path + "/indices", DType::int64, {slice.sparse->sparse_dims, capacity},
        offset + parts.indices.offset, part, parts.indices.offset, link);
    add(path + "/values", slice.dtype, values, offset + parts.values.offset, part,
        parts.values.offset, link);
  };
  add("layout", DType::uint8, {placement.layout.length}, placement.layout.offset, 0);
  add("fingerprints", DType::uint8, {placement.fingerprints.length}, placement.fingerprints.offset,
      1);
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const auto& slice = layout.slices[i];
    auto path = path_of(layout, slice.param);
    if (layout.kind == LayoutKind::gradients) path += "/" + std::to_string(slice.position);
    const auto offset = placement.slice_extents[i].offset;
    const auto part = 3 + slice.alias_of.value_or(i);
    const bool link = slice.alias_of.has_value();
    if (slice.sparse) {
      add_sparse(path, slice, offset, part, link);
    } else {
      add(path, slice.dtype, slice.shape, offset, part, 0, link);
    }
  }
  return {{"groups", groups},
          {"datasets", datasets},
          {"sparse", sparse},
          {"manifest", sample_manifest()},
          {"manifest_offset", placement.manifest.offset},
          {"manifest_slot", placement.manifest.length}};
}

void write_sample(const std::string& kind, const std::string& file,
                  const std::string& description) {
  Layout layout;
  if (kind == "gradients") layout = gradients_of_every_kind();
  if (kind == "state") layout = state_of_every_kind();
  const auto skeleton = hdf5::make_skeleton_builder()->build(layout, sample_sizes());
  const auto bytes = sample_file(skeleton);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  std::ofstream(description) << expected(layout, skeleton.placement);
}

}  // namespace
}  // namespace gradstore::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: write_sample_file gradients|state|nothing <file.h5> <expected.json>\n";
    return 2;
  }
  try {
    gradstore::testing::write_sample(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
