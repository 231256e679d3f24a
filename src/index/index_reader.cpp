#include <algorithm>
#include <utility>

#include "gradstore/error.h"
#include "index/fingerprints_record.h"
#include "index/index_impl.h"
#include "index/key_codec.h"
#include "index/layout_record.h"

namespace gradstore::index {

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Decodes something found in the index, saying what and where if it cannot be decoded.
template <class Decode>
auto decoded(const Database& database, const std::string& what, Decode decode) {
  try {
    return decode();
  } catch (const Error& error) {
    std::throw_with_nested(Error(error.code(), database.in_index("Reading " + what)));
  }
}

SnapshotRow decode_row(const Database& database, SnapshotId id, std::string_view bytes) {
  return decoded(database, "snapshot " + to_string(id), [&] {
    auto row = decode_snapshot_row(bytes_of(bytes));
    if (row.info.id != id) {
      throw Error(ErrorCode::corrupt, "the row calls itself " + to_string(row.info.id));
    }
    return row;
  });
}

bool is_pinned(const Database& database, SnapshotId id) {
  return database.get(Family::pins, encode(id)).has_value();
}

SnapshotId decode_id(const Database& database, std::string_view key) {
  return decoded(database, "a key", [&] { return decode_snapshot_key(key); });
}

}  // namespace

IndexReader::IndexReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IndexReader::~IndexReader() = default;

IndexReader::Impl::Use IndexReader::Impl::use() {
  for (;;) {
    std::shared_lock lock(mutex);
    if (database) return {std::move(lock), *database};
    lock.unlock();
    open_again();
  }
}

Database& IndexReader::Impl::database_for_writing() {
  if (std::shared_lock lock(mutex); database) return *database;
  return open_again();
}

Database& IndexReader::Impl::open_again() {
  const std::unique_lock lock(mutex);
  if (closed)
    throw Error(ErrorCode::invalid_argument, "The index " + directory.string() + " is closed");
  if (!database) database = Database::open(files, directory);
  return *database;
}

std::optional<SnapshotRow> IndexReader::find(SnapshotId id) const {
  const auto database = impl_->use();
  const auto bytes = database->get(Family::snapshots, encode(id));
  if (!bytes) return std::nullopt;
  auto row = decode_row(database.database, id, *bytes);
  row.info.pinned = is_pinned(database.database, id);
  return row;
}

std::vector<SnapshotRow> IndexReader::list() const {
  const auto database = impl_->use();
  std::set<SnapshotId> pins;
  database->scan(Family::pins, {}, [&](auto key, auto) {
    pins.insert(decode_id(database.database, key));
    return true;
  });

  std::vector<SnapshotRow> rows;
  database->scan(Family::snapshots, {}, [&](auto key, auto value) {
    const auto id = decode_id(database.database, key);
    rows.push_back(decode_row(database.database, id, value));
    rows.back().info.pinned = pins.contains(id);
    return true;
  });
  return rows;
}

std::optional<SnapshotRow> IndexReader::latest() const {
  const auto database = impl_->use();
  std::optional<SnapshotRow> latest;
  database->scan_backward(Family::snapshots, [&](auto key, auto value) {
    auto row = decode_row(database.database, decode_id(database.database, key), value);
    if (row.info.state == SnapshotState::committed) latest = std::move(row);
    return !latest;
  });
  if (latest) latest->info.pinned = is_pinned(database.database, latest->info.id);
  return latest;
}

std::vector<SnapshotId> IndexReader::find(std::uint64_t step, std::uint32_t micro_step,
                                          Stage stage) const {
  const auto database = impl_->use();
  std::vector<SnapshotId> ids;
  database->scan(
      Family::steps, encode(TrainingPoint{step, micro_step, stage}), [&](auto key, auto) {
        ids.push_back(decoded(database.database, "a key", [&] { return decode_step_key(key).id; }));
        return true;
      });
  return ids;
}

Layout IndexReader::layout(const Digest128& digest) const {
  const auto database = impl_->use();
  return decoded(database.database, "layout " + to_string(digest), [&] {
    const auto bytes = database->get(Family::layouts, encode(digest));
    if (!bytes) throw Error(ErrorCode::corrupt, "it is not there");
    if (digest_of(bytes_of(*bytes)) != digest) throw Error(ErrorCode::corrupt, "checksum mismatch");
    return decode_layout(bytes_of(*bytes));
  });
}

std::vector<kernels::SliceFingerprint> IndexReader::fingerprints(const SnapshotRow& row,
                                                                 const Layout& layout) const {
  const auto database = impl_->use();
  const auto num_slices = layout.slices.size();
  std::vector<kernels::SliceFingerprint> all;
  all.reserve(num_slices);
  for (std::uint32_t page = 0; all.size() < num_slices; ++page) {
    const auto what = "page " + std::to_string(page) + " of snapshot " + to_string(row.info.id);
    decoded(database.database, what, [&] {
      const auto bytes =
          database->get(Family::pages, encode(PageKey{row.layout_digest, page, row.info.id}));
      if (!bytes) throw Error(ErrorCode::corrupt, "it is not there");
      const auto slices = std::span(layout.slices)
                              .subspan(all.size())
                              .first(std::min(kSlicesPerPage, num_slices - all.size()));
      const auto of_page = decode_fingerprints(bytes_of(*bytes), slices);
      all.insert(all.end(), of_page.begin(), of_page.end());
    });
  }
  return all;
}

SnapshotId IndexReader::high_water() const {
  const auto database = impl_->use();
  const auto bytes = database->get(Family::meta, kHighWaterKey);
  return bytes ? decode_id(database.database, *bytes) : SnapshotId{};
}

}  // namespace gradstore::index
