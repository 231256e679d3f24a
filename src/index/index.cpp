#include "index/index.h"

#include <algorithm>
#include <utility>

#include "core/ensure.h"
#include "gradstore/error.h"
#include "index/fingerprints_record.h"
#include "index/index_impl.h"
#include "index/key_codec.h"
#include "index/layout_record.h"

namespace gradstore::index {

namespace {

StepKey step_key_of(const SnapshotInfo& info) {
  return {{info.metadata.step, info.metadata.micro_step, info.metadata.stage}, info.id};
}

SnapshotRow require_row(const Index& index, const Database& database, SnapshotId id) {
  auto row = index.find(id);
  if (!row) {
    throw Error(ErrorCode::not_found, database.in_index("There is no snapshot " + to_string(id)));
  }
  return *std::move(row);
}

}  // namespace

bool Index::exists(io::FileSystem& files, const io::Path& directory) {
  return Database::exists(files, directory);
}

std::unique_ptr<Index> Index::open(std::shared_ptr<io::FileSystem> files,
                                   const io::Path& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->files = std::move(files);
  impl->database = Database::open(impl->files, directory);
  return std::unique_ptr<Index>(new Index(std::move(impl)));
}

Index::~Index() = default;

void Index::put_durable(const SnapshotRow& row, const Layout& layout,
                        std::span<const kernels::SliceFingerprint> fingerprints) {
  const auto id = row.info.id;
  if (row.info.num_slices != layout.slices.size() || fingerprints.size() != layout.slices.size()) {
    throw Error(ErrorCode::invalid_argument, "Putting snapshot " + to_string(id) +
                                                 ": row, layout and fingerprints differ in slices");
  }
  const std::lock_guard guard(impl_->writing);
  auto& database = impl_->database_for_writing();
  rocksdb::WriteBatch batch;

  database.put(batch, Family::snapshots, encode(id), encode(row));
  database.put(batch, Family::steps, encode(step_key_of(row.info)), {});
  std::span<const SliceSpec> slices = layout.slices;
  for (PageKey key{row.layout_digest, 0, id}; !fingerprints.empty(); ++key.page) {
    const auto length = std::min(kSlicesPerPage, fingerprints.size());
    database.put(batch, Family::pages, encode(key),
                 encode_fingerprints(fingerprints.first(length), slices.first(length)));
    fingerprints = fingerprints.subspan(length);
    slices = slices.subspan(length);
  }

  if (!impl_->known_layouts.contains(row.layout_digest) &&
      !database.get(Family::layouts, encode(row.layout_digest))) {
    const auto bytes = encode(layout);
    ensure(digest_of(std::as_bytes(std::span(bytes))) == row.layout_digest,
           "a row names its layout");
    database.put(batch, Family::layouts, encode(row.layout_digest), bytes);
  }

  database.put(batch, Family::meta, kHighWaterKey, encode(std::max(id, high_water())));
  database.write(batch, "Putting snapshot " + to_string(id));
  impl_->known_layouts.insert(row.layout_digest);
}

void Index::set_state_durable(SnapshotId id, SnapshotState state) {
  const std::lock_guard guard(impl_->writing);
  auto& database = impl_->database_for_writing();
  auto row = require_row(*this, database, id);
  row.info.state = state;
  rocksdb::WriteBatch batch;
  database.put(batch, Family::snapshots, encode(id), encode(row));
  database.write(batch, "Marking snapshot " + to_string(id) + " as " + std::string(name_of(state)));
}

void Index::set_pinned_durable(SnapshotId id, bool pinned) {
  const std::lock_guard guard(impl_->writing);
  auto& database = impl_->database_for_writing();
  require_row(*this, database, id);
  rocksdb::WriteBatch batch;
  if (pinned) {
    database.put(batch, Family::pins, encode(id), {});
  } else {
    database.remove(batch, Family::pins, encode(id));
  }
  database.write(batch, (pinned ? "Pinning snapshot " : "Unpinning snapshot ") + to_string(id));
}

void Index::remove_durable(SnapshotId id) {
  const std::lock_guard guard(impl_->writing);
  auto& database = impl_->database_for_writing();
  const auto row = require_row(*this, database, id);
  rocksdb::WriteBatch batch;
  database.remove(batch, Family::snapshots, encode(id));
  database.remove(batch, Family::steps, encode(step_key_of(row.info)));
  database.remove(batch, Family::pins, encode(id));
  // Until there is none: the row's number of slices is a size read from disk.
  for (PageKey key{row.layout_digest, 0, id}; database.get(Family::pages, encode(key));
       ++key.page) {
    database.remove(batch, Family::pages, encode(key));
  }
  database.write(batch, "Removing snapshot " + to_string(id));
}

void Index::raise_high_water_durable(SnapshotId id) {
  const std::lock_guard guard(impl_->writing);
  auto& database = impl_->database_for_writing();
  if (id <= high_water()) return;
  rocksdb::WriteBatch batch;
  database.put(batch, Family::meta, kHighWaterKey, encode(id));
  database.write(batch, "Raising the highest id to " + to_string(id));
}

void Index::reopen() {
  const std::lock_guard guard(impl_->writing);
  const std::unique_lock lock(impl_->mutex);
  impl_->database.reset();
  impl_->closed = false;
  impl_->known_layouts.clear();  // The one that was being put may not be there.
  impl_->database = Database::open(impl_->files, impl_->directory);
}

void Index::close() {
  const std::lock_guard guard(impl_->writing);
  const std::unique_lock lock(impl_->mutex);
  impl_->closed = true;
  const auto database = std::move(impl_->database);
  if (database) database->flush();
}

}  // namespace gradstore::index
