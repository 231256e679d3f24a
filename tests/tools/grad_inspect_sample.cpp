#include "grad_inspect_sample.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "archive/file_writer.h"
#include "hdf5/skeleton_builder.h"
#include "io/block_pool.h"

namespace gradstore::testing {

namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

SliceSpec whole(std::uint32_t param, DType dtype, std::vector<std::uint64_t> shape) {
  SliceSpec slice{param, 0, dtype, std::move(shape), 0, 0, 0};
  slice.end = num_elements(slice.shape);
  return slice;
}

Layout state_layout() {
  Layout layout;
  layout.kind = LayoutKind::state;
  layout.groups = {{}};
  layout.params = {{"exp_avg", 0, DType::uint8, Presence::captured, {1000}}};
  layout.slices = {whole(0, DType::uint8, {1000})};
  return layout;
}

void push(archive::FileJob& file, io::BlockPool& pool) {
  const auto& placement = file.plan->placement();
  std::vector<std::byte> image(placement.file_length - placement.slices.offset);
  for (std::size_t i = 0; i < file.plan->layout.slices.size(); ++i) {
    const auto bytes = inspect_bytes(file.plan->layout, i);
    if (bytes.empty()) continue;
    const auto offset = placement.slice_extents[i].offset - placement.slices.offset;
    std::ranges::copy(bytes, image.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  for (std::size_t n = 0; n < archive::num_blocks(placement); ++n) {
    auto block = pool.acquire();
    std::memcpy(block.bytes().data(), image.data() + n * archive::kBlockBytes,
                archive::block_length(placement, n));
    file.blocks.push(std::move(block));
  }
  file.blocks.finish();
}

}  // namespace

Layout inspect_layout() {
  Layout layout;
  layout.groups = {{7, true}, {9, true}, {3, true}};
  layout.params = {
      {"embed.weight", 0, DType::float32, Presence::captured, {50, 4}},
      {"never.used", 0, DType::float32, Presence::absent, {3}},
      {"head.\x1b[31mred", 2, DType::bfloat16, Presence::captured, {7}},
      {"\xff\xfe.half", 2, DType::float16, Presence::captured, {5}},
      {"block.0.empty", 2, DType::float32, Presence::captured, {0, 4}},
      {"block.0.scalar", 2, DType::float64, Presence::captured, {}},
      {"block.0.count", 2, DType::int64, Presence::captured, {3}},
      {"block.0.zeros", 2, DType::uint8, Presence::captured, {6}},
  };
  layout.slices = {
      {0, 0, DType::float32, {101}, 0, 101, 0},
      {0, 1, DType::float32, {101}, 101, 200, 2},
      whole(2, DType::bfloat16, {7}),
      whole(3, DType::float16, {5}),
      whole(4, DType::float32, {0, 4}),
      whole(5, DType::float64, {}),
      whole(6, DType::int64, {3}),
      whole(7, DType::uint8, {6}),
  };
  return layout;
}

std::vector<std::byte> inspect_bytes(const Layout& layout, std::size_t number) {
  if (layout.kind == LayoutKind::state) return bytes_of(std::vector<std::uint8_t>(1000, 0x5a));
  switch (number) {
    case 0:
    case 1: {
      // Element i of the param is i / 100 - 1; what is padding has a value that nothing may count.
      std::vector<float> values(101);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto element = number * 101 + i;
        values[i] = element < 200 ? static_cast<float>(element) / 100 - 1 : 1e30f;
      }
      return bytes_of(values);
    }
    case 2: return bytes_of<std::uint16_t>({0x3dcd, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0, 0x8000});
    case 3: return bytes_of<std::uint16_t>({0x2e66, 0x7bff, 0x0001, 0x7e00, 0x8000});
    case 4: return {};
    case 5: return bytes_of<double>({0.1});
    case 6: return bytes_of<std::int64_t>({-5, 0, std::numeric_limits<std::int64_t>::max()});
    default: return bytes_of<std::uint8_t>({0, 0, 0, 0, 0, 0});
  }
}

std::unique_ptr<archive::RankArchive> open_for_writing(const io::Path& directory,
                                                       std::uint32_t rank,
                                                       std::uint32_t world_size) {
  archive::RankArchiveOptions options;
  options.files = io::posix_file_system();
  options.directory = directory;
  options.rank = rank;
  options.world_size = world_size;
  options.run_name = "sample run";
  options.skeletons = hdf5::make_skeleton_builder();
  return std::make_unique<archive::RankArchive>(std::move(options));
}

SnapshotId save(archive::RankArchive& archive, const InspectSnapshot& snapshot) {
  archive::Manifest manifest;
  manifest.store_uuid = archive::to_text(archive.store().uuid);
  manifest.run_name = archive.store().run_name;
  manifest.id = archive.take_id();
  manifest.rank = archive.rank();
  manifest.world_size = archive.world_size();
  manifest.metadata.step = snapshot.step;
  manifest.metadata.micro_step = snapshot.micro_step;
  manifest.metadata.accumulation_steps = 8;
  manifest.metadata.stage = snapshot.stage;
  manifest.metadata.user_json = R"({"position": 1234})";
  manifest.created_unix_ns = snapshot.created_unix_ns;
  if (snapshot.with_state) manifest.state_id = manifest.id;
  const auto job = std::make_shared<archive::SnapshotJob>(manifest);

  io::BlockPool pool(archive::kBlockBytes, 4 * archive::kBlockBytes);
  const auto fill = [&](archive::FileJob& file, const Layout& layout) {
    file.manifest = encode(manifest);
    file.plan = archive.planner().plan(layout, file.manifest.size());
    push(file, pool);
  };
  if (snapshot.with_state) {
    job->state = std::make_unique<archive::FileJob>();
    fill(*job->state, state_layout());
  }
  fill(job->gradients, inspect_layout());

  archive::AsyncWriter writer(archive, [](const SnapshotId&, const Error&) {});
  archive.promise_space(job->bytes_total());
  writer.submit(job);
  job->wait_until(std::nullopt);
  writer.close();
  return manifest.id;
}

}  // namespace gradstore::testing
