#include "index/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/log.h"
#include "gradstore/error.h"
#include "index/key_codec.h"
#include "index/rocksdb_file_system.h"
#include "index/torn_log.h"
#include "io/process.h"

namespace gradstore::index {

namespace {

constexpr std::uint32_t kFormatVersion = 1;
constexpr const char* kVersionKey = "format_version";
constexpr std::array<const char*, kNumFamilies> kFamilyNames = {"default", "layouts", "snapshots",
                                                                "steps",   "pages",   "pins"};
constexpr std::size_t kMiB = std::size_t{1} << 20;

// Lives inside a training process: no log of its own.
class SilentLogger : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  SilentLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  void Logv(const char*, va_list) override {}
};

rocksdb::DBOptions database_options(rocksdb::Env& env) {
  rocksdb::DBOptions options;
  options.env = &env;
  options.info_log = std::make_shared<SilentLogger>();
  options.paranoid_checks = true;
  // Several families, one log: without this a crash could leave one flushed and another not.
  options.atomic_flush = true;
  // Note [Torn log] is in torn_log.h.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.max_total_wal_size = 4 * kMiB;  // What a view or an open after a crash has to replay.
  options.max_manifest_file_size = kMiB;
  options.max_background_jobs = 2;
  options.max_open_files = 64;
  options.max_file_opening_threads = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> families() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8 * kMiB);
  table.block_size = 16 * 1024;  // Histories are scanned.
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = 8 * kMiB;
  options.max_write_buffer_number = 2;
  options.arena_block_size = 64 * 1024;  // Most families hold next to nothing.
  options.target_file_size_base = 16 * kMiB;
  options.max_bytes_for_level_base = 64 * kMiB;
  options.compression = rocksdb::kNoCompression;  // Mostly digests and floating-point numbers.

  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const auto* name : kFamilyNames) descriptors.emplace_back(name, options);
  return descriptors;
}

// A newer version of this program, if its column families are how we can tell.
void refuse_unknown_families(const rocksdb::DBOptions& options, const io::Path& directory) {
  std::vector<std::string> names;
  if (!rocksdb::DB::ListColumnFamilies(options, directory.string(), &names).ok()) return;
  for (const auto& name : names) {
    if (std::find(kFamilyNames.begin(), kFamilyNames.end(), name) == kFamilyNames.end()) {
      throw Error(ErrorCode::incompatible, "The index " + directory.string() +
                                               " has a column family " + name +
                                               ": a newer version of this program wrote it");
    }
  }
}

// Note [Torn log]. Under the index's lock: nobody else may be writing the log.
bool cut_torn_log(io::FileSystem& files, const io::Path& directory) {
  const auto lock = files.lock(directory / "LOCK");
  const auto torn = find_torn_log(files, directory);
  if (!torn) return false;
  const auto file = files.open(torn->path, io::OpenMode::append);
  log::warn("torn record cut off the index log",
            {{"log", torn->path.string()},
             {"bytes", std::to_string(file->length() - torn->whole_bytes)}});
  file->truncate(torn->whole_bytes);
  file->sync();
  return true;
}

// Note [A forked child's exit]
//
// RocksDB has a thread of its own for as long as a database is open, and a static object that this
// thread waits in. In a forked child there is no such thread, and the object's destructor, which
// exit() calls, waits for it for ever. So a child of a process that has opened a database ends
// here: after the handlers that were registered later, and without the static objects made before.
void end_forked_child(int status, void*) {
  static const auto first_pid = io::process_id();
  if (io::process_id() == first_pid) return;
  std::fflush(nullptr);
  std::_Exit(status);
}

// Once, and after RocksDB has made its static objects: handlers run in reverse order.
void watch_exit() {
  static const bool once = [] {
    end_forked_child(0, nullptr);  // Notes the pid.
    return on_exit(&end_forked_child, nullptr) == 0;
  }();
  (void)once;
}

rocksdb::Slice slice(std::string_view text) { return {text.data(), text.size()}; }

std::string_view view(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace

void check(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return;
  ErrorCode code = ErrorCode::io;
  switch (status.code()) {
    case rocksdb::Status::kBusy: code = ErrorCode::busy; break;
    case rocksdb::Status::kCorruption: code = ErrorCode::corrupt; break;
    case rocksdb::Status::kNotSupported: code = ErrorCode::incompatible; break;
    case rocksdb::Status::kInvalidArgument: code = ErrorCode::internal; break;
    case rocksdb::Status::kIOError:
      // Of an index that is there, a file is missing.
      if (status.IsPathNotFound()) code = ErrorCode::corrupt;
      break;
    default: break;
  }
  throw Error(code, what + ": " + status.ToString());
}

bool Database::exists(io::FileSystem& files, const io::Path& directory) {
  return files.status(directory / "CURRENT").has_value();
}

std::unique_ptr<Database> Database::open(std::shared_ptr<io::FileSystem> files,
                                         const io::Path& directory) {
  std::unique_ptr<Database> result(new Database(directory));
  if (!exists(*files, directory)) {
    files->create_directory(directory);
    files->sync_directory(directory.has_parent_path() ? directory.parent_path() : io::Path("."));
  }
  result->env_ = rocksdb::NewCompositeEnv(rocksdb_file_system(files, Access::read_write));
  result->env_->LowerThreadPoolCPUPriority(rocksdb::Env::LOW);
  result->env_->LowerThreadPoolIOPriority(rocksdb::Env::LOW);

  auto options = database_options(*result->env_);
  options.create_if_missing = true;
  options.create_missing_column_families = true;  // A crash may have come between their creations.
  const auto open_once = [&] {
    return result->fill([&](auto* handles, auto* database) {
      return rocksdb::DB::Open(options, directory.string(), families(), handles, database);
    });
  };
  auto status = open_once();
  if (status.IsCorruption() && cut_torn_log(*files, directory)) status = open_once();
  if (status.IsInvalidArgument()) refuse_unknown_families(options, directory);
  watch_exit();
  check(status, "Opening the index " + directory.string());
  result->require_version();
  return result;
}

std::unique_ptr<Database> Database::open_view(std::shared_ptr<io::FileSystem> files,
                                              const io::Path& directory) {
  std::unique_ptr<Database> result(new Database(directory));
  if (!exists(*files, directory)) {
    throw Error(ErrorCode::not_found, "There is no index in " + directory.string());
  }
  result->env_ = rocksdb::NewCompositeEnv(rocksdb_file_system(files, Access::read_only));

  auto options = database_options(*result->env_);
  options.max_open_files = -1;  // All at once: they stay readable when the writer removes them.
  const auto open_once = [&] {
    return result->fill([&](auto* handles, auto* database) {
      return rocksdb::DB::OpenForReadOnly(options, directory.string(), families(), handles,
                                          database);
    });
  };
  auto status = open_once();
  if (status.IsCorruption() && find_torn_log(*files, directory)) {
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    status = open_once();
  }
  if (status.IsInvalidArgument() || (status.ok() && !result->has_version())) {
    throw Error(ErrorCode::not_found,
                "The index " + directory.string() + " is not fully made yet: " + status.ToString());
  }
  check(status, "Looking into the index " + directory.string());
  return result;
}

template <class Open>
rocksdb::Status Database::fill(Open open) {
  rocksdb::DB* database = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const auto status = open(&handles, &database);
  database_.reset(database);
  for (std::size_t i = 0; i < handles.size() && i < kNumFamilies; ++i)
    handles_[i].reset(handles[i]);
  return status;
}

bool Database::has_version() const {
  const auto bytes = get(Family::meta, kVersionKey);
  if (!bytes) return false;
  const auto version = decode_number(*bytes);
  if (version > kFormatVersion) {
    throw Error(ErrorCode::incompatible,
                "The index " + directory_.string() + " has version " + std::to_string(version) +
                    ", this program knows up to " + std::to_string(kFormatVersion));
  }
  return true;
}

void Database::require_version() {
  if (has_version()) return;
  bool empty = true;
  scan(Family::snapshots, {}, [&](auto, auto) { return empty = false; });
  if (!empty) {
    throw Error(ErrorCode::corrupt, "The index " + directory_.string() + " has no version");
  }
  rocksdb::WriteBatch batch;
  put(batch, Family::meta, kVersionKey, encode_number(kFormatVersion));
  write(batch, "Writing the version");
}

std::optional<std::string> Database::get(Family family, std::string_view key) const {
  std::string value;
  const auto status = database_->Get(rocksdb::ReadOptions(), handle(family), slice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) check(status, in_index("Reading"));
  return value;
}

void Database::scan(Family family, std::string_view prefix,
                    const std::function<bool(std::string_view, std::string_view)>& visit) const {
  const std::unique_ptr<rocksdb::Iterator> entry(
      database_->NewIterator(rocksdb::ReadOptions(), handle(family)));
  for (entry->Seek(slice(prefix)); entry->Valid(); entry->Next()) {
    const auto key = view(entry->key());
    if (!key.starts_with(prefix) || !visit(key, view(entry->value()))) break;
  }
  check(entry->status(), in_index("Scanning"));
}

void Database::scan_backward(
    Family family, const std::function<bool(std::string_view, std::string_view)>& visit) const {
  const std::unique_ptr<rocksdb::Iterator> entry(
      database_->NewIterator(rocksdb::ReadOptions(), handle(family)));
  for (entry->SeekToLast(); entry->Valid(); entry->Prev()) {
    if (!visit(view(entry->key()), view(entry->value()))) break;
  }
  check(entry->status(), in_index("Scanning"));
}

void Database::put(rocksdb::WriteBatch& batch, Family family, std::string_view key,
                   std::string_view value) {
  check(batch.Put(handle(family), slice(key), slice(value)), in_index("Preparing a write"));
}

void Database::remove(rocksdb::WriteBatch& batch, Family family, std::string_view key) {
  check(batch.Delete(handle(family), slice(key)), in_index("Preparing a write"));
}

void Database::write(rocksdb::WriteBatch& batch, const std::string& what) {
  rocksdb::WriteOptions options;
  options.sync = true;
  check(database_->Write(options, &batch), in_index(what));
}

void Database::flush() {
  std::vector<rocksdb::ColumnFamilyHandle*> all;
  for (const auto& family : handles_) all.push_back(family.get());
  check(database_->Flush(rocksdb::FlushOptions(), all), in_index("Flushing"));
}

std::string Database::in_index(const std::string& what) const {
  return what + " in the index " + directory_.string();
}

rocksdb::ColumnFamilyHandle* Database::handle(Family family) const {
  return handles_[static_cast<std::size_t>(family)].get();
}

}  // namespace gradstore::index
