#include "gradstore/snapshot_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "archive/async_writer.h"
#include "archive/file_writer.h"
#include "archive/rank_archive.h"
#include "gradstore/gradient_store.h"
#include "hdf5/skeleton_builder.h"
#include "io/block_pool.h"
#include "io/process.h"
#include "torch/capture.h"
#include "torch/close_at_exit.h"
#include "torch/restore.h"

namespace gradstore {

namespace {

constexpr const char* kWriter =
    "gradstore " GRADSTORE_VERSION ", LibTorch " GRADSTORE_LIBTORCH_VERSION;

std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// LibTorch's errors become ours: from here on callers see one type.
template <typename F>
auto translating(F f) {
  try {
    return f();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorCode::busy,
                std::string("LibTorch has no memory left: ") + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::internal,
                std::string("LibTorch refused an operation: ") + error.what_without_backtrace());
  }
}

// RocksDB keeps threads from the first database on, and believes in a forked child that it still
// has them: there, close() would wait for one of them for ever.
void refuse_forked_child() {
  static const auto first_pid = io::process_id();
  if (io::process_id() == first_pid) return;
  throw Error(
      ErrorCode::invalid_argument,
      "SnapshotStore::open(): process " + std::to_string(first_pid) +
          " opened a store and then forked this one, which cannot open any: start the child "
          "as a new program (exec, or \"spawn\" in Python), or fork before the first open()");
}

}  // namespace

const at::Tensor& CompanionState::at(const std::string& name) const {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  throw Error(ErrorCode::not_found, "The companion state has no tensor " + printable(name));
}

struct Ticket::Shared {
  explicit Shared(std::shared_ptr<archive::SnapshotJob> job_in) : job(std::move(job_in)) {}
  // In a forked child the job's mutex and condition variables may be in use by threads that are not
  // there, and destroying them would wait for these: it leaks.
  ~Shared() {
    if (io::process_id() != pid) new std::shared_ptr<archive::SnapshotJob>(std::move(job));
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  archive::SnapshotJob& job_of_this_process() const {
    if (io::process_id() == pid) return *job;
    throw Error(ErrorCode::invalid_argument,
                "The ticket of snapshot " + to_string(job->manifest.id) + " was given to process " +
                    std::to_string(pid) + ", before a fork: ask it there");
  }

  std::shared_ptr<archive::SnapshotJob> job;
  std::int64_t pid = io::process_id();
};

Ticket::Ticket(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
SnapshotId Ticket::id() const { return shared_->job->manifest.id; }
void Ticket::wait() const { shared_->job_of_this_process().wait_until(std::nullopt); }
bool Ticket::wait_for(std::chrono::milliseconds timeout) const {
  return shared_->job_of_this_process().wait_until(std::chrono::steady_clock::now() + timeout);
}
bool Ticket::done() const { return shared_->job_of_this_process().done(); }
std::uint64_t Ticket::bytes_total() const { return shared_->job->bytes_total(); }
std::uint64_t Ticket::bytes_written() const { return shared_->job->bytes_written; }

class SnapshotStore::Impl {
 public:
  Impl(const std::filesystem::path& directory, StoreOptions options)
      : options_(std::move(options)),
        directory_(directory),
        archive_({options_.file_system ? options_.file_system : io::posix_file_system(), directory,
                  options_.rank, options_.world_size, options_.run_name,
                  hdf5::make_skeleton_builder()}),
        writer_(archive_, options_.on_error) {}

  Ticket snapshot(const GradientStore& gradients, const SnapshotMetadata& metadata,
                  const CompanionState* state);

  // Reading and managing: open handles of this process only.
  archive::RankArchive& archive() {
    require_usable();
    return archive_;
  }
  const StoreOptions& options() const { return options_; }
  const std::filesystem::path& directory() const { return directory_; }
  bool in_child() const { return io::process_id() != pid_; }

  void close();

 private:
  void require_this_process() const {
    if (in_child()) {
      throw Error(ErrorCode::invalid_argument,
                  directory_.string() + ": this store was opened by process " +
                      std::to_string(pid_) +
                      ", before a fork: use it there, or close it before forking");
    }
  }
  void require_usable() const {
    require_this_process();
    if (closed_)
      throw Error(ErrorCode::invalid_argument, directory_.string() + ": the store is closed");
  }

  std::shared_ptr<archive::SnapshotJob> capture(const GradientStore& gradients,
                                                const SnapshotMetadata& metadata,
                                                const CompanionState* state);
  archive::Manifest begin_manifest(const SnapshotMetadata& metadata);
  std::shared_ptr<archive::SnapshotJob> plan(const GradientStore& gradients,
                                             CaptureSource& gradient_source,
                                             const CaptureSource* state_source,
                                             const CompanionState* state,
                                             const SnapshotMetadata& metadata);
  void make_room(std::size_t blocks);
  Ticket failed_ticket(const SnapshotMetadata& metadata, const Error& error);

  StoreOptions options_;
  std::filesystem::path directory_;
  std::int64_t pid_ = io::process_id();
  archive::RankArchive archive_;
  archive::AsyncWriter writer_;
  std::mutex snapshot_mutex_;  // one capture at a time
  std::unique_ptr<io::BlockPool> pool_;
  std::atomic<bool> closed_ = false;
  CloseAtExit close_at_exit_{[this] { close(); }};
};

void SnapshotStore::Impl::close() {
  require_this_process();
  const std::lock_guard lock(snapshot_mutex_);
  if (closed_.exchange(true)) return;
  writer_.close();
  std::optional<Error> of_index;
  try {
    archive_.close();
  } catch (const Error& error) {
    of_index = error;
  }
  // First what loses something.
  writer_.tell_failure();
  if (!of_index) return;
  const Error error(
      of_index->code(),
      "Closing " + directory_.string() + ": " + of_index->what() +
          ". Every snapshot that was committed stays so; the next open() makes it good");
  if (!options_.on_error) throw error;
  writer_.report({}, error);
}

archive::Manifest SnapshotStore::Impl::begin_manifest(const SnapshotMetadata& metadata) {
  archive::Manifest manifest;
  manifest.id = archive_.take_id();
  manifest.metadata = metadata;
  return manifest;
}

std::shared_ptr<archive::SnapshotJob> SnapshotStore::Impl::plan(const GradientStore& gradients,
                                                                CaptureSource& gradient_source,
                                                                const CaptureSource* state_source,
                                                                const CompanionState* state,
                                                                const SnapshotMetadata& metadata) {
  auto manifest = begin_manifest(metadata);
  manifest.store_uuid = archive::to_text(archive_.store().uuid);
  manifest.run_name = archive_.store().run_name;
  manifest.rank = options_.rank;
  manifest.world_size = options_.world_size;
  manifest.created_unix_ns = unix_now_ns();
  manifest.setup = {gradients.world_size(), gradients.local_rank(), gradients.partition_grad()};
  manifest.writer = kWriter;
  if (state != nullptr) manifest.state_id = manifest.id;
  manifest.overlapping_slices = gradient_source.overlaps;

  const auto fill = [this](archive::FileJob& file, const archive::Manifest& of,
                           const Layout& layout) {
    file.manifest = encode(of);
    file.plan = archive_.planner().plan(layout, file.manifest.size());
  };
  auto job = std::make_shared<archive::SnapshotJob>(manifest);
  fill(job->gradients, manifest, gradient_source.layout);
  if (state != nullptr) {
    auto state_manifest = manifest;
    state_manifest.metadata.user_json = state->json;
    state_manifest.overlapping_slices = state_source->overlaps;
    job->state = std::make_unique<archive::FileJob>();
    fill(*job->state, state_manifest, state_source->layout);
  }
  return job;
}

// Sizes the staging memory for snapshots of so many blocks, and applies WhenFull.
void SnapshotStore::Impl::make_room(std::size_t blocks) {
  const auto wanted = std::max<std::uint64_t>(blocks, 1) * archive::kBlockBytes;
  const bool grow = options_.staging_bytes == 0 && pool_ &&
                    pool_->blocks_total() * archive::kBlockBytes < 2 * wanted;
  if (!pool_ || grow) {
    const auto budget = options_.staging_bytes != 0
                            ? options_.staging_bytes
                            : std::min(2 * wanted, io::physical_memory_bytes() / 4);
    if (!pool_ || pool_->blocks_total() * archive::kBlockBytes <
                      budget / archive::kBlockBytes * archive::kBlockBytes) {
      pool_ = std::make_unique<io::BlockPool>(archive::kBlockBytes, budget);
    }
  }
  // A snapshot larger than all of the memory goes in waves, but only when nothing else holds any.
  const auto needed = std::min(blocks, pool_->blocks_total());
  if (options_.when_full == WhenFull::fail && pool_->free_blocks() < needed) {
    throw Error(ErrorCode::busy,
                "The staging memory (" +
                    std::to_string(pool_->blocks_total() * archive::kBlockBytes) +
                    " bytes) is full of snapshots that are still being written, and " +
                    std::to_string(needed * archive::kBlockBytes) +
                    " bytes are needed: wait for a ticket, or raise StoreOptions::staging_bytes");
  }
}

// A snapshot that could not even start, for who has asked not to be stopped by that.
Ticket SnapshotStore::Impl::failed_ticket(const SnapshotMetadata& metadata, const Error& error) {
  auto job = std::make_shared<archive::SnapshotJob>(begin_manifest(metadata));
  const Error named(error.code(), describe_snapshot(job->manifest) + ": " + error.what());
  writer_.report(job->manifest.id, named);
  job->complete(std::make_exception_ptr(named));
  return Ticket(std::make_shared<Ticket::Shared>(std::move(job)));
}

Ticket SnapshotStore::Impl::snapshot(const GradientStore& gradients,
                                     const SnapshotMetadata& metadata,
                                     const CompanionState* state) {
  const auto start = [&] {
    return translating([&] {
      return Ticket(std::make_shared<Ticket::Shared>(capture(gradients, metadata, state)));
    });
  };
  if (!options_.on_error) return start();
  // No lock is held any more where on_error is called.
  try {
    return start();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;
    return failed_ticket(metadata, error);
  } catch (const std::bad_alloc&) {
    return failed_ticket(metadata, {ErrorCode::busy, "there is no memory left to capture it"});
  } catch (const std::exception& error) {
    return failed_ticket(metadata, {ErrorCode::internal, error.what()});
  }
}

std::shared_ptr<archive::SnapshotJob> SnapshotStore::Impl::capture(const GradientStore& gradients,
                                                                   const SnapshotMetadata& metadata,
                                                                   const CompanionState* state) {
  require_usable();
  const std::lock_guard lock(snapshot_mutex_);
  require_usable();
  writer_.tell_failure();

  std::optional<CaptureSource> state_source;
  if (state != nullptr) state_source = gather_state(*state);
  std::shared_ptr<archive::SnapshotJob> job;
  GradientStoreAccess::with_contents(gradients, [&](const GradientStoreView& view) {
    auto source = gather_gradients(view);
    job = plan(gradients, source, state_source ? &*state_source : nullptr, state, metadata);
    make_room(num_blocks(job->gradients.plan->placement()) +
              (job->state ? num_blocks(job->state->plan->placement()) : 0));
    archive_.promise_space(job->bytes_total());
    writer_.submit(job);
    try {
      if (job->state)
        copy_into_blocks(*job->state->plan, state_source->tensors, *pool_, job->state->blocks);
      copy_into_blocks(*job->gradients.plan, source.tensors, *pool_, job->gradients.blocks);
    } catch (...) {
      if (job->state) job->state->blocks.abandon();
      job->gradients.blocks.abandon();
      throw;
    }
  });
  return job;
}

SnapshotStore::SnapshotStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<SnapshotStore> SnapshotStore::open(const std::filesystem::path& directory,
                                                   StoreOptions options) {
  refuse_forked_child();
  if (options.rank >= options.world_size) {
    throw Error(ErrorCode::invalid_argument,
                "Rank " + std::to_string(options.rank) + " of a world of " +
                    std::to_string(options.world_size) + ": ranks count from 0");
  }
  if (directory.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "SnapshotStore::open(): the path of the store is empty: name its folder");
  }
  try {
    return std::unique_ptr<SnapshotStore>(
        new SnapshotStore(std::make_unique<Impl>(directory, std::move(options))));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    throw Error(ErrorCode::io, "Opening the store " + directory.string() +
                                   " for writing: " + describe(error) +
                                   ". To look inside a store without writing, use `grad-inspect`");
  }
}

SnapshotStore::~SnapshotStore() {
  // A forked child has none of the threads, and must not touch the parent's files: it leaks.
  if (impl_->in_child()) {
    (void)impl_.release();
    return;
  }
  try {
    impl_->close();
  } catch (...) {
    // A destructor cannot report: callers who must know call close().
  }
}

Ticket SnapshotStore::snapshot(const GradientStore& gradients, const SnapshotMetadata& metadata) {
  return impl_->snapshot(gradients, metadata, nullptr);
}

Ticket SnapshotStore::snapshot(const GradientStore& gradients, const SnapshotMetadata& metadata,
                               const CompanionState& state) {
  return impl_->snapshot(gradients, metadata, &state);
}

std::vector<SnapshotInfo> SnapshotStore::list() const { return impl_->archive().list(); }

std::optional<SnapshotInfo> SnapshotStore::latest() const {
  const auto row = impl_->archive().index().latest();
  return row ? impl_->archive().info(row->info.id) : std::nullopt;
}

std::optional<SnapshotInfo> SnapshotStore::latest_good() const {
  return impl_->archive().latest_good();
}

std::optional<SnapshotInfo> SnapshotStore::find(std::uint64_t step, std::uint32_t micro_step,
                                                Stage stage) const {
  const auto ids = impl_->archive().index().find(step, micro_step, stage);
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    if (auto info = impl_->archive().info(*id)) return info;
  }
  return std::nullopt;
}

RestoreReport SnapshotStore::restore(SnapshotId id, GradientStore& gradients,
                                     RestoreOptions options) const {
  const auto file = impl_->archive().open_gradients(id);
  return translating(
      [&] { return restore_gradients(file, gradients, options, impl_->options().verify_on_read); });
}

CompanionState SnapshotStore::read_state(SnapshotId id) const {
  const auto file = impl_->archive().open_state(id);
  return translating([&] { return read_companion_state(file, impl_->options().verify_on_read); });
}

at::Tensor SnapshotStore::read(SnapshotId id, const std::string& param, std::uint32_t slice) const {
  const auto file = impl_->archive().open_gradients(id);
  const auto& layout = file.layout();
  bool known = false;
  for (const auto& spec : layout.params) known = known || spec.name == param;
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    if (layout.params[layout.slices[i].param].name == param && layout.slices[i].position == slice) {
      return translating([&] { return read_slice(file, i, impl_->options().verify_on_read); });
    }
  }
  throw Error(ErrorCode::not_found,
              "Snapshot " + to_string(id) + " has no " +
                  (known ? "slice " + std::to_string(slice) + " of param " : "param ") +
                  printable(param));
}

void SnapshotStore::pin(SnapshotId id) { impl_->archive().index().set_pinned_durable(id, true); }
void SnapshotStore::unpin(SnapshotId id) { impl_->archive().index().set_pinned_durable(id, false); }
void SnapshotStore::close() { impl_->close(); }
const std::filesystem::path& SnapshotStore::directory() const { return impl_->directory(); }

}  // namespace gradstore
