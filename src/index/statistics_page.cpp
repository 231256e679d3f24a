#include "index/statistics_page.h"

#include <schemas/statistics_page_generated.h>

#include <cmath>
#include <cstring>

#include "core/ensure.h"
#include "index/record.h"

namespace gradstore::index {

namespace {

constexpr RecordKind kKind{"Statistics page", "GSPG", 1};
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

std::string encode_statistics_page(std::span<const kernels::SliceFingerprint> slices) {
  using kernels::Statistics;
  ensure(!slices.empty() && slices.size() <= kSlicesPerPage, "a page has 1 to 16 slices");

  flatbuffers::FlatBufferBuilder builder(2048);
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
  fb::FinishStatisticsPageBuffer(
      builder, fb::CreateStatisticsPage(builder, kKind.version, digest, nan, positive_infinity,
                                        negative_infinity, zero, min, max, sum, sum_of_squares));
  return finished_record(builder);
}

std::vector<kernels::SliceFingerprint> decode_statistics_page(std::span<const std::byte> bytes) {
  const VerifiedRecord record(bytes, kKind);
  const auto& root = record.root<fb::StatisticsPage>();
  const auto digest = record.column(root.digest());
  const auto nan = record.column(root.nan());
  const auto positive_infinity = record.column(root.positive_infinity());
  const auto negative_infinity = record.column(root.negative_infinity());
  const auto zero = record.column(root.zero());
  const auto min = record.column(root.min());
  const auto max = record.column(root.max());
  const auto sum = record.column(root.sum());
  const auto sum_of_squares = record.column(root.sum_of_squares());
  if (nan.empty() || nan.size() > kSlicesPerPage) record.refuse("a page has 1 to 16 slices");
  record.require_size(nan.size(), positive_infinity, negative_infinity, zero, min, max, sum,
                      sum_of_squares);
  record.require_size(nan.size() * kDigestBytes, digest);

  std::vector<kernels::SliceFingerprint> slices(nan.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    std::memcpy(slices[i].digest.bytes.data(), digest.data() + i * kDigestBytes, kDigestBytes);
    auto& statistics = slices[i].statistics;
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
  return slices;
}

}  // namespace gradstore::index
