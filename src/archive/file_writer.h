// Writes one file under its temporary name: slices as they arrive, then everything else, then sync.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "archive/file_plan.h"
#include "archive/seal.h"
#include "io/block_pool.h"
#include "io/file_system.h"
#include "io/worker_pool.h"
#include "kernels/fingerprint.h"

namespace gradstore::archive {

/// Blocks are cut from the slice region at multiples of this, so that a block is an image of its
/// place in the file and no element straddles two.
inline constexpr std::size_t kBlockBytes = 8u << 20;

/// Number of blocks that carry the slice region of a file, its zero tail included.
std::size_t num_blocks(const Placement& placement);

/// Bytes of block `number`: kBlockBytes, or less for the last; a multiple of 4096.
std::size_t block_length(const Placement& placement, std::size_t number);

class FileWriter {
 public:
  /// Creates `temporary` and reserves its space. `written` is advanced as bytes reach the file.
  FileWriter(io::FileSystem& files, io::WorkerPool& workers, io::Path temporary,
             std::shared_ptr<const FilePlan> plan, std::atomic<std::uint64_t>& written);
  /// Waits for writes in flight. The file stays as it is.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Takes the next block of the slice region, in order: fingerprints it here, writes it elsewhere.
  /// Errors: those of an earlier write, as soon as they are known.
  void add(io::Block block);

  /// Call when all blocks are in. Writes seal, metadata and records; on return all is durable under
  /// the temporary name. `identity` gives id, rank and point of training; the rest is filled in.
  Seal finish(const Seal& identity, const std::string& manifest);

  /// Complete after the last block; in the layout's order.
  const std::vector<kernels::SliceFingerprint>& fingerprints() const { return fingerprints_; }

 private:
  void fingerprint(std::span<const std::byte> block);
  void write_behind(io::Block block, std::uint64_t offset, std::size_t length);
  void drain();  // waits for all writes; throws the first failure
  void write_head(const Seal& seal, const std::string& fingerprints, const std::string& manifest);

  io::WorkerPool& workers_;
  io::Path temporary_;
  std::shared_ptr<const FilePlan> plan_;
  std::atomic<std::uint64_t>& written_;
  std::unique_ptr<io::File> file_;

  std::size_t blocks_added_ = 0;
  std::size_t slice_ = 0;      // the one that the next byte belongs to
  DigestStream digest_;        // of its bytes so far
  Extent counted_;             // those of its bytes that statistics are taken of
  std::uint64_t entries_ = 0;  // of a sparse slice
  std::unique_ptr<kernels::StatisticsStream> statistics_;
  std::vector<kernels::SliceFingerprint> fingerprints_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t in_flight_ = 0;
  std::exception_ptr failure_;
};

}  // namespace gradstore::archive
