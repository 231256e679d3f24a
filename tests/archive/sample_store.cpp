#include "sample_store.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "archive/file_writer.h"
#include "archive/verify.h"
#include "core/digest.h"
#include "index/layout_record.h"

namespace gradstore::testing {

namespace {

SliceSpec whole_slice(std::uint32_t param, DType dtype, std::vector<std::uint64_t> shape) {
  SliceSpec slice{param, 0, dtype, std::move(shape), 0, 0, 0};
  slice.end = num_elements(slice.shape);
  return slice;
}

}  // namespace

archive::Skeleton FakeSkeletons::build(const Layout& layout, const archive::PartSizes& sizes) {
  auto with_metadata = sizes;
  with_metadata.metadata = 1000 + 10 * layout.slices.size();
  archive::Skeleton skeleton;
  skeleton.placement = archive::place(layout, with_metadata);
  const auto record = index::encode(layout);
  const auto digest = digest_of(std::as_bytes(std::span(record)));
  for (std::size_t i = 0; i < with_metadata.metadata; ++i) {
    skeleton.metadata.push_back(digest.bytes[i % 16] ^ static_cast<std::byte>(i));
  }
  return skeleton;
}

Layout sample_layout() {
  Layout layout;
  layout.groups = {{7, true}, {3, true}};
  layout.params = {
      {"embed.weight", 0, DType::float32, Presence::captured, {50, 4}},
      {"never.used", 0, DType::float32, Presence::absent, {3}},
      {"block.0.norm", 1, DType::bfloat16, Presence::captured, {7}},
      {"block.0.empty", 1, DType::float32, Presence::captured, {0, 4}},
      {"block.0.big", 1, DType::float16, Presence::captured, {300, 200}},
  };
  layout.slices = {
      {0, 0, DType::float32, {101}, 0, 101, 0},   {0, 1, DType::float32, {101}, 101, 200, 2},
      whole_slice(2, DType::bfloat16, {7}),       whole_slice(3, DType::float32, {0, 4}),
      whole_slice(4, DType::float16, {300, 200}),
  };
  return layout;
}

Layout sample_state_layout(std::uint64_t bytes) {
  Layout layout;
  layout.kind = LayoutKind::state;
  layout.groups = {{}};
  layout.params = {{"exp_avg", 0, DType::uint8, Presence::captured, {bytes}},
                   {"step", 0, DType::int64, Presence::captured, {}}};
  layout.slices = {whole_slice(0, DType::uint8, {bytes}), whole_slice(1, DType::int64, {})};
  return layout;
}

std::vector<std::byte> sample_bytes(const Layout& layout, std::size_t number, std::uint64_t seed) {
  std::vector<std::byte> bytes(num_bytes(layout.slices[number]));
  std::mt19937_64 random(seed * 1000 + number);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

archive::RankArchiveOptions sample_options(const io::Path& directory,
                                           std::shared_ptr<io::FileSystem> files) {
  return {std::move(files), directory, 0, 1, "sample", std::make_unique<FakeSkeletons>()};
}

void push_blocks(archive::FileJob& file, std::uint64_t seed, io::BlockPool& pool) {
  const auto& placement = file.plan->placement();
  std::vector<std::byte> image(placement.file_length - placement.slices.offset);
  for (std::size_t i = 0; i < file.plan->layout.slices.size(); ++i) {
    const auto bytes = sample_bytes(file.plan->layout, i, seed);
    if (bytes.empty()) continue;
    std::ranges::copy(
        bytes, image.begin() + static_cast<std::ptrdiff_t>(placement.slice_extents[i].offset -
                                                           placement.slices.offset));
  }
  for (std::size_t n = 0; n < archive::num_blocks(placement); ++n) {
    auto block = pool.try_acquire();
    if (!block) {
      file.blocks.open_gate();
      block = pool.acquire();
    }
    std::memcpy(block->bytes().data(), image.data() + n * archive::kBlockBytes,
                archive::block_length(placement, n));
    file.blocks.push(std::move(*block));
  }
  file.blocks.finish();
}

std::shared_ptr<archive::SnapshotJob> make_job(archive::RankArchive& archive,
                                               const SampleJob& sample) {
  archive::Manifest manifest;
  manifest.id = archive.take_id();
  manifest.rank = archive.rank();
  manifest.world_size = archive.world_size();
  manifest.metadata.step = sample.step;
  manifest.metadata.accumulation_steps = 8;
  manifest.metadata.micro_step = 3;
  manifest.metadata.user_json = sample.user_json;
  manifest.created_unix_ns = sample.created_unix_ns;
  if (sample.with_state) manifest.state_id = manifest.id;
  auto job = std::make_shared<archive::SnapshotJob>(manifest);

  const auto fill = [&](archive::FileJob& file, const Layout& layout, const std::string& json) {
    auto of_file = manifest;
    of_file.metadata.user_json = json;
    file.manifest = encode(of_file);
    file.plan = archive.planner().plan(layout, file.manifest.size());
    io::BlockPool pool(archive::kBlockBytes, 64 * archive::kBlockBytes);
    push_blocks(file, sample.seed, pool);
  };
  if (sample.with_state) {
    job->state = std::make_unique<archive::FileJob>();
    fill(*job->state, sample_state_layout(), sample.state_json);
  }
  fill(job->gradients, sample.layout, sample.user_json);
  return job;
}

SnapshotId save(archive::RankArchive& archive, const SampleJob& sample) {
  const auto job = make_job(archive, sample);
  archive.promise_space(job->bytes_total());
  archive.write(*job);
  return job->manifest.id;
}

bool holds(archive::RankArchive& archive, SnapshotId id, std::uint64_t seed) {
  const auto info = archive.info(id);
  if (!info || !archive.whole(*info)) return false;
  const auto same = [seed](const archive::FileReader& file) {
    for (std::size_t i = 0; i < file.layout().slices.size(); ++i) {
      const auto expected = sample_bytes(file.layout(), i, seed);
      std::vector<std::byte> bytes(expected.size());
      file.read_slice(i, bytes);
      if (bytes != expected) return false;
    }
    return true;
  };
  return same(archive.open_gradients(id)) && (!info->state_id || same(archive.open_state(id)));
}

}  // namespace gradstore::testing
