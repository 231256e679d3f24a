// Reads what is on disk, without LibTorch: beside a live writer, after a crash, on read-only media.
//
//   auto reader = gradstore::StoreReader::open("runs/42");
//   if (const auto newest = reader.latest(0)) {
//     const auto snapshot = reader.snapshot(0, newest->id);
//     for (const auto& param : snapshot.params()) ...
//   }
//
// Nothing here takes a lock or writes. Link gradstore::archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gradstore/dtype.h"
#include "gradstore/error.h"
#include "gradstore/snapshot.h"

namespace gradstore {

/// Whether a param has a gradient in a snapshot: three states that never look alike.
enum class GradientPresence {
  captured,      ///< It has; its slices are there.
  absent,        ///< It had none in memory: None.
  not_captured,  ///< It was known, but left out of this snapshot.
};

/// "captured", "absent", "not_captured"; "invalid" for a value outside the enum.
std::string_view name_of(GradientPresence presence) noexcept;

/// Of the elements of a slice as numbers, without its padding. Extremes and sums are over finite
/// elements only; integers count as numbers, rounded to double beyond 2^53.
/// Units: the elements' own, squared for `sum_of_squares`.
/// Source: schemas/FORMAT.md, "fingerprints" (the order of summation is fixed: the same elements
///         have the same sums, bit for bit, on every machine).
struct SliceStatistics {
  std::uint64_t count = 0;  ///< All elements.
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t zero = 0;     ///< +0 and -0.
  double min = 0;             ///< Never -0. NaN: no finite element.
  double max = 0;             ///< Never -0. NaN: no finite element.
  double absmax = 0;          ///< Greatest magnitude. NaN: no finite element.
  double sum = 0;             ///< Infinite or NaN if adding overflowed.
  double sum_of_squares = 0;  ///< Its root is the L2 norm. Infinite if adding overflowed.
};

/// One slice of a param, as stored.
struct StoredSlice {
  DType dtype = DType::float32;
  std::vector<std::uint64_t> shape;  ///< Padding included; empty for a scalar. Unit: elements.
  std::uint64_t begin = 0;           ///< First element of the flattened param that it holds.
  std::uint64_t end = 0;             ///< One past the last: end - begin elements are the param's.
  std::uint64_t padding = 0;         ///< Elements after them that belong to no param.
  std::uint64_t num_bytes = 0;       ///< What SnapshotReader::read() returns.
  std::string digest;                ///< XXH3-128 of those bytes: 32 lower-case hexadecimal digits.
  SliceStatistics statistics;
};

struct StoredParam {
  std::string name;                  ///< Any bytes; unique in the snapshot.
  std::int64_t group_id = 0;         ///< The optimizer's group that it belongs to.
  DType dtype = DType::float32;      ///< Of the param; its slices name their own.
  std::vector<std::uint64_t> shape;  ///< Of the whole param; empty for a scalar. Unit: elements.
  GradientPresence presence = GradientPresence::captured;
  std::vector<StoredSlice> slices;  ///< In the order of their append; none unless captured.
};

/// One tensor of the companion state.
struct StoredTensor {
  std::string name;  ///< Any bytes; unique in the state.
  DType dtype = DType::float32;
  std::vector<std::uint64_t> shape;  ///< Empty for a scalar. Unit: elements.
  std::uint64_t num_bytes = 0;       ///< What SnapshotReader::read_state() returns.
  std::string digest;                ///< XXH3-128 of those bytes: 32 lower-case hexadecimal digits.
};

/// One place in a file that is not as it was written.
struct StoredDamage {
  std::uint32_t rank = 0;
  SnapshotId snapshot;                 ///< Whose gradients or companion state are damaged.
  std::filesystem::path file;          ///< Begins with the store's directory.
  std::string region;                  ///< "seal", "layout", "manifest", "slice", "file", ...
  std::string param;                   ///< Param or tensor; empty where none can be named.
  std::optional<std::uint32_t> slice;  ///< Position in the param's list.
  std::uint64_t offset = 0;            ///< Where the damaged region begins. Unit: bytes.
  std::string what;                    ///< A sentence for people.
};

/// One rank's part of one snapshot. Its files stay open, so that it can be read on even when they
/// are removed meanwhile. Movable; all members are safe to call concurrently.
class SnapshotReader {
 public:
  SnapshotReader(SnapshotReader&&) noexcept;
  SnapshotReader& operator=(SnapshotReader&&) noexcept;
  ~SnapshotReader();

  /// What the index says about it; metadata.user_json is what was given to snapshot().
  const SnapshotInfo& info() const noexcept;

  /// All params, by group; inside a group in the order of their first gradient.
  const std::vector<StoredParam>& params() const noexcept;

  /// The elements of slice number `slice` of `param`, padding included, checked against the digest.
  ///
  /// Shape:  as StoredSlice::shape, row-major, contiguous; dtype as stored, little-endian.
  /// Units:  those of the gradient at info().metadata.stage; nothing is converted.
  /// Errors: Error{not_found} no such param or slice; {corrupt} its digest differs, naming file,
  ///         param and slice; {io}.
  /// Cost:   one read of as many bytes.
  std::vector<std::byte> read(const std::string& param, std::uint32_t slice = 0) const;

  /// Whether the snapshot has companion state. Damage to it does not keep the gradients from being
  /// read; the functions below tell of it.
  bool has_state() const noexcept;
  /// The caller's JSON in the companion state; empty without a state.
  /// Errors: Error{corrupt} the state's file is damaged or missing; {io}.
  const std::string& state_json() const;
  /// The tensors of the companion state, in the order in which they were given; none without.
  /// Errors: as state_json().
  const std::vector<StoredTensor>& state_tensors() const;
  /// The elements of one of them, as read() does for a slice.
  /// Errors: as state_json(); Error{not_found} no state, or no such tensor in it.
  std::vector<std::byte> read_state(const std::string& tensor) const;

 private:
  friend class StoreReader;
  class Impl;
  explicit SnapshotReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A store as an onlooker sees it. Each question is answered from what has been committed until
/// then. Movable; all members are safe to call concurrently.
///
/// Errors of all: Error{not_found} the store has no such rank; {corrupt} its index is damaged, or
///                missing while there are snapshot files; {incompatible} a newer version wrote it;
///                {busy} a writer changes the index faster than it can be looked at; {io}.
/// Cost:          about 10 ms per question, for a fresh look at the index.
class StoreReader {
 public:
  /// Errors: Error{not_found} no such folder; {incompatible} it is not a store, or a newer
  ///         version's; {corrupt} store.json; {io}.
  static StoreReader open(const std::filesystem::path& directory);
  StoreReader(StoreReader&&) noexcept;
  StoreReader& operator=(StoreReader&&) noexcept;
  ~StoreReader();

  const std::filesystem::path& directory() const noexcept;
  const std::string& run_name() const noexcept;  ///< As given when the store was made.
  const std::string& uuid() const noexcept;      ///< "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"

  /// Ranks that have a part in the store, ascending.
  std::vector<std::uint32_t> ranks() const;

  /// All snapshots of a rank in ascending order of ids, damaged ones included and marked, and those
  /// whose data are gone.
  std::vector<SnapshotInfo> list(std::uint32_t rank) const;

  /// The committed snapshot with the greatest id (not the greatest step), damaged or not.
  std::optional<SnapshotInfo> latest(std::uint32_t rank) const;

  /// The newest attempt's snapshot of this point of training, damaged or not.
  std::optional<SnapshotInfo> find(std::uint32_t rank, std::uint64_t step, std::uint32_t micro_step,
                                   Stage stage) const;

  /// Opens one snapshot and checks its records; slices are checked when they are read.
  /// Errors: Error{not_found} no such snapshot, or its data are gone; {corrupt} naming file and
  ///         region.
  /// Cost:   memory for the description of all params and slices, about 400 bytes each.
  SnapshotReader snapshot(std::uint32_t rank, SnapshotId id) const;

  /// Checks every byte of a snapshot, companion state included. Damage is the answer, so it is
  /// returned; empty: all is as it was written.
  /// Errors: Error{not_found} no such snapshot, or its data are gone.
  /// Cost:   one read of its files.
  std::vector<StoredDamage> verify(std::uint32_t rank, SnapshotId id) const;

  /// The same for all snapshots of all ranks that have data. A snapshot that its writer removes
  /// meanwhile is left out.
  std::vector<StoredDamage> verify() const;

 private:
  class Impl;
  explicit StoreReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradstore
