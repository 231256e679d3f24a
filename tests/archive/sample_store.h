// Small stores without LibTorch and libhdf5, for the tests of this layer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "archive/async_writer.h"
#include "archive/rank_archive.h"
#include "io/block_pool.h"

namespace gradstore::testing {

/// Metadata that look like nothing in particular, but depend on the layout as real ones do.
class FakeSkeletons : public archive::SkeletonBuilder {
 public:
  archive::Skeleton build(const Layout& layout, const archive::PartSizes& sizes) override;
};

/// Two groups; slices of several dtypes and sizes, one empty, one padded, one larger than a page;
/// an absent param.
Layout sample_layout();

/// One tensor of `bytes` bytes besides a small one.
Layout sample_state_layout(std::uint64_t bytes = 5000);

/// The bytes of slice `number` in the snapshot filled with `seed`.
std::vector<std::byte> sample_bytes(const Layout& layout, std::size_t number, std::uint64_t seed);

archive::RankArchiveOptions sample_options(
    const io::Path& directory, std::shared_ptr<io::FileSystem> files = io::posix_file_system());

struct SampleJob {
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  bool with_state = false;
  std::int64_t created_unix_ns = 1'700'000'000'000'000'000;
  Layout layout = sample_layout();
  std::string user_json = "{}";
  std::string state_json = "{}";
};

/// A job whose blocks are all in the queue.
std::shared_ptr<archive::SnapshotJob> make_job(archive::RankArchive& archive,
                                               const SampleJob& sample);

/// Pushes the blocks of one file. `pool` may be smaller than the file if a writer takes them.
void push_blocks(archive::FileJob& file, std::uint64_t seed, io::BlockPool& pool);

/// Writes and commits at once. Errors: those of RankArchive::write().
SnapshotId save(archive::RankArchive& archive, const SampleJob& sample);

/// Is the snapshot there, with every byte that save() with this seed wrote, state included?
bool holds(archive::RankArchive& archive, SnapshotId id, std::uint64_t seed);

}  // namespace gradstore::testing
