#include "archive/file_writer.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/ensure.h"
#include "index/fingerprints_record.h"

namespace gradstore::archive {

namespace {

std::uint64_t slice_region_bytes(const Placement& placement) {
  return placement.file_length - placement.slices.offset;
}

std::unique_ptr<io::File> create(io::FileSystem& files, const io::Path& path) {
  auto file = files.open(path, io::OpenMode::create, io::Caching::direct);
  if (kPageBytes % file->alignment() == 0) return file;
  // A device that wants more than our blocks promise: through the page cache then.
  file.reset();
  return files.open(path, io::OpenMode::create_or_empty, io::Caching::buffered);
}

// Entries of a slice whose first bytes these are; 0 for a dense one.
std::uint64_t entries_of(const SliceSpec& slice, std::span<const std::byte> bytes) {
  if (!slice.sparse) return 0;
  std::uint64_t entries = 0;  // Alignment keeps the header within one block.
  std::memcpy(&entries, bytes.first(sizeof entries).data(), sizeof entries);
  ensure(entries <= slice.sparse->capacity, "a sparse slice has room for its entries");
  return entries;
}

// The bytes of a slice that statistics are taken of: all but the padding at its end; of a sparse
// one the values of its entries.
Extent counted_extent(const SliceSpec& slice, const Extent& extent, std::uint64_t entries) {
  if (!slice.sparse) return {extent.offset, (slice.end - slice.begin) * size_of(slice.dtype)};
  const auto parts = sparse_parts(slice);
  return {extent.offset + parts.values.offset, entries * parts.entry_bytes};
}

}  // namespace

std::size_t num_blocks(const Placement& placement) {
  return (slice_region_bytes(placement) + kBlockBytes - 1) / kBlockBytes;
}

std::size_t block_length(const Placement& placement, std::size_t number) {
  return std::min<std::uint64_t>(kBlockBytes, slice_region_bytes(placement) - number * kBlockBytes);
}

FileWriter::FileWriter(io::FileSystem& files, io::WorkerPool& workers, io::Path temporary,
                       std::shared_ptr<const FilePlan> plan, std::atomic<std::uint64_t>& written)
    : workers_(workers),
      temporary_(std::move(temporary)),
      plan_(std::move(plan)),
      written_(written),
      file_(create(files, temporary_)),
      fingerprints_(plan_->layout.slices.size()) {
  file_->allocate(plan_->placement().file_length);
}

FileWriter::~FileWriter() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return in_flight_ == 0; });
}

void FileWriter::add(io::Block block) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  const auto number = blocks_added_++;
  ensure(number < num_blocks(plan_->placement()), "no more blocks than the file has");
  const auto length = block_length(plan_->placement(), number);
  fingerprint(block.bytes().first(length));
  write_behind(std::move(block), plan_->placement().slices.offset + number * kBlockBytes, length);
}

void FileWriter::fingerprint(std::span<const std::byte> block) {
  const auto& slices = plan_->layout.slices;
  const auto& extents = plan_->placement().slice_extents;
  const auto begin = plan_->placement().slices.offset + (blocks_added_ - 1) * kBlockBytes;
  const auto end = begin + block.size();

  for (; slice_ < slices.size(); ++slice_) {
    if (slices[slice_].alias_of) {
      fingerprints_[slice_] = fingerprints_[*slices[slice_].alias_of];
      continue;
    }
    const auto& extent = extents[slice_];
    if (extent.length > 0 && extent.offset >= end) return;
    if (!statistics_) {
      statistics_ = std::make_unique<kernels::StatisticsStream>(slices[slice_].dtype);
      digest_.reset();
      if (extent.length > 0) {
        entries_ = entries_of(slices[slice_], block.subspan(extent.offset - begin));
        counted_ = counted_extent(slices[slice_], extent, entries_);
      }
    }
    const auto from = std::max(begin, extent.offset);
    const auto to = std::min(end, extent.end());
    if (from < to) {
      // In pieces that fit the cache, so that the second pass over them finds them there.
      constexpr std::size_t kPiece = 128 * 1024;
      for (auto at = from; at < to; at += kPiece) {
        const auto piece = block.subspan(at - begin, std::min<std::uint64_t>(kPiece, to - at));
        digest_.add(piece);
        const auto counted_from = std::max(at, counted_.offset);
        const auto counted_to = std::min(at + piece.size(), counted_.end());
        if (counted_from < counted_to) {
          statistics_->add(piece.subspan(counted_from - at, counted_to - counted_from));
        }
      }
    }
    if (extent.end() > end) return;
    fingerprints_[slice_] = {digest_.digest(), statistics_->result(), entries_};
    entries_ = 0;
    statistics_.reset();
  }
}

void FileWriter::write_behind(io::Block block, std::uint64_t offset, std::size_t length) {
  {
    const std::lock_guard lock(mutex_);
    ++in_flight_;
  }
  // std::function wants something copyable.
  auto shared = std::make_shared<io::Block>(std::move(block));
  workers_.submit([this, shared = std::move(shared), offset, length]() mutable {
    std::exception_ptr failure;
    try {
      file_->write_at(offset, shared->bytes().first(length));
      written_ += length;
    } catch (...) {
      failure = std::current_exception();
    }
    shared.reset();  // Back to the pool before the waiter goes on.
    // Notified under the lock: the waiter may destroy this object as soon as it is released.
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    --in_flight_;
    idle_.notify_all();
  });
}

void FileWriter::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return in_flight_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

Seal FileWriter::finish(const Seal& identity, const std::string& manifest) {
  const auto& placement = plan_->placement();
  ensure(blocks_added_ == num_blocks(placement), "all blocks are in before the file is finished");
  if (blocks_added_ == 0) {  // Slices without bytes have fingerprints too.
    for (std::size_t i = 0; i < fingerprints_.size(); ++i) {
      fingerprints_[i] = {digest_of({}),
                          kernels::StatisticsStream(plan_->layout.slices[i].dtype).result()};
    }
  }
  drain();

  const auto fingerprints = index::encode_fingerprints(fingerprints_, plan_->layout.slices);
  auto padded = manifest;
  padded.resize(placement.manifest.length, ' ');
  const auto digest_text = [](const std::string& text) {
    return digest_of(std::as_bytes(std::span(text)));
  };

  auto seal = identity;
  seal.kind = plan_->layout.kind;
  seal.file_length = placement.file_length;
  seal.hdf5_end = placement.hdf5_end;
  seal.metadata = {placement.metadata, plan_->metadata_digest};
  seal.layout = {placement.layout, plan_->layout_digest};
  seal.fingerprints = {placement.fingerprints, digest_text(fingerprints)};
  seal.manifest = {placement.manifest, digest_text(padded)};
  seal.slices = placement.slices;
  write_head(seal, fingerprints, padded);
  file_->sync();
  file_.reset();
  return seal;
}

void FileWriter::write_head(const Seal& seal, const std::string& fingerprints,
                            const std::string& manifest) {
  const auto& placement = plan_->placement();
  ensure(fingerprints.size() == placement.fingerprints.length,
         "fingerprints have the planned size");
  io::AlignedBuffer head(placement.slices.offset);  // zeroed
  const auto put = [&head](const Extent& extent, const void* bytes) {
    std::memcpy(head.bytes().subspan(extent.offset, extent.length).data(), bytes, extent.length);
  };
  const auto seal_bytes = encode(seal);
  put({0, kSealBytes}, seal_bytes.data());
  put(placement.metadata, plan_->skeleton.metadata.data());
  put(placement.layout, plan_->layout_record.data());
  put(placement.fingerprints, fingerprints.data());
  put(placement.manifest, manifest.data());
  file_->write_at(0, head.bytes());
  written_ += head.size();
}

}  // namespace gradstore::archive
