#include "index/fingerprints_record.h"

#include <schemas/fingerprints_generated.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/ensure.h"
#include "index/record.h"

namespace gradstore::index {

namespace {

constexpr RecordKind kKind{"Fingerprints record", "GSFP", 1};
constexpr std::size_t kDigestBytes = sizeof(Digest128::bytes);

template <class T>
flatbuffers::Offset<flatbuffers::Vector<T>> add_column(
    flatbuffers::FlatBufferBuilder& builder, std::span<const kernels::SliceFingerprint> slices,
    T kernels::Statistics::*member) {
  T* entry = nullptr;
  const auto column = builder.CreateUninitializedVector(slices.size(), &entry);
  for (const auto& slice : slices) *entry++ = slice.statistics.*member;
  return column;
}

flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> add_digests(
    flatbuffers::FlatBufferBuilder& builder, std::span<const kernels::SliceFingerprint> slices) {
  std::uint8_t* entry = nullptr;
  const auto column = builder.CreateUninitializedVector(slices.size() * kDigestBytes, &entry);
  for (const auto& slice : slices) {
    std::memcpy(entry, slice.digest.bytes.data(), kDigestBytes);
    entry += kDigestBytes;
  }
  return column;
}

}  // namespace

std::string encode_fingerprints(std::span<const kernels::SliceFingerprint> slices,
                                std::span<const SliceSpec> specs) {
  using kernels::Statistics;
  ensure(slices.size() == specs.size(), "every slice has a fingerprint");
  require_encodable(kKind, 512 + 96 * slices.size());

  flatbuffers::FlatBufferBuilder builder(512 + 96 * slices.size());
  builder.ForceDefaults(true);
  const auto digest = add_digests(builder, slices);
  const auto nan = add_column(builder, slices, &Statistics::nan);
  const auto positive_infinity = add_column(builder, slices, &Statistics::positive_infinity);
  const auto negative_infinity = add_column(builder, slices, &Statistics::negative_infinity);
  const auto zero = add_column(builder, slices, &Statistics::zero);
  const auto min = add_column(builder, slices, &Statistics::min);
  const auto max = add_column(builder, slices, &Statistics::max);
  const auto sum = add_column(builder, slices, &Statistics::sum);
  const auto sum_of_squares = add_column(builder, slices, &Statistics::sum_of_squares);
  std::vector<std::uint64_t> entries;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (specs[i].sparse) entries.push_back(slices[i].entries);
  }
  const auto sparse_entries = builder.CreateVector(entries);
  fb::FinishFingerprintsBuffer(
      builder, fb::CreateFingerprints(builder, kKind.version, digest, nan, positive_infinity,
                                      negative_infinity, zero, min, max, sum, sum_of_squares,
                                      sparse_entries));
  return finished_record(builder);
}

std::vector<kernels::SliceFingerprint> decode_fingerprints(std::span<const std::byte> bytes,
                                                           std::span<const SliceSpec> slices) {
  const VerifiedRecord record(bytes, kKind);
  const auto& root = record.root<fb::Fingerprints>();
  const auto digest = record.column(root.digest());
  const auto nan = record.column(root.nan());
  const auto positive_infinity = record.column(root.positive_infinity());
  const auto negative_infinity = record.column(root.negative_infinity());
  const auto zero = record.column(root.zero());
  const auto min = record.column(root.min());
  const auto max = record.column(root.max());
  const auto sum = record.column(root.sum());
  const auto sum_of_squares = record.column(root.sum_of_squares());
  record.require_size(slices.size(), nan, positive_infinity, negative_infinity, zero, min, max, sum,
                      sum_of_squares);
  record.require_size(slices.size() * kDigestBytes, digest);
  const auto sparse_entries = record.column(root.sparse_entries());
  const auto num_sparse = std::ranges::count_if(
      slices, [](const SliceSpec& slice) { return slice.sparse.has_value(); });
  record.require_size(static_cast<std::size_t>(num_sparse), sparse_entries);
  auto next_sparse = sparse_entries.begin();

  std::vector<kernels::SliceFingerprint> fingerprints(slices.size());
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    std::memcpy(fingerprints[i].digest.bytes.data(), digest.data() + i * kDigestBytes,
                kDigestBytes);
    auto& statistics = fingerprints[i].statistics;
    auto elements = slices[i].end - slices[i].begin;
    if (slices[i].sparse) {
      fingerprints[i].entries = *next_sparse++;
      if (fingerprints[i].entries > slices[i].sparse->capacity) {
        record.refuse("a sparse slice has more entries than room");
      }
      elements =
          fingerprints[i].entries * sparse_parts(slices[i]).entry_bytes / size_of(slices[i].dtype);
    }
    statistics.count = elements * numbers_per_element(slices[i].dtype);
    statistics.nan = nan[i];
    statistics.positive_infinity = positive_infinity[i];
    statistics.negative_infinity = negative_infinity[i];
    statistics.zero = zero[i];
    statistics.min = min[i];
    statistics.max = max[i];
    statistics.absmax = std::fmax(std::fabs(min[i]), std::fabs(max[i]));
    statistics.sum = sum[i];
    statistics.sum_of_squares = sum_of_squares[i];
  }
  return fingerprints;
}

}  // namespace gradstore::index
