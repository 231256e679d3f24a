#include "archive/fingerprint_record.h"

#include <cstring>

#include "gradstore/error.h"
#include "schemas/fingerprints_generated.h"

namespace gradstore::archive {

namespace {

constexpr std::uint32_t kVersion = 1;

using kernels::SliceFingerprint;
using kernels::Statistics;

template <typename T>
auto column(flatbuffers::FlatBufferBuilder& builder, std::span<const SliceFingerprint> fingerprints,
            T Statistics::*member) {
  T* values = nullptr;
  const auto offset = builder.CreateUninitializedVector(fingerprints.size(), &values);
  for (std::size_t i = 0; i < fingerprints.size(); ++i) values[i] = fingerprints[i].statistics.*member;
  return offset;
}

template <typename T>
void read_column(const flatbuffers::Vector<T>* values, std::vector<SliceFingerprint>& fingerprints,
                 T Statistics::*member) {
  if (values == nullptr || values->size() != fingerprints.size()) {
    throw Error(ErrorCode::corrupt, "Fingerprints record: a column has not one entry per slice");
  }
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    fingerprints[i].statistics.*member = values->Get(static_cast<flatbuffers::uoffset_t>(i));
  }
}

}  // namespace

std::string encode(std::span<const SliceFingerprint> fingerprints) {
  flatbuffers::FlatBufferBuilder builder(1024 + fingerprints.size() * 96);
  std::uint8_t* digests = nullptr;
  const auto digest = builder.CreateUninitializedVector(fingerprints.size() * 16, &digests);
  for (std::size_t i = 0; i < fingerprints.size(); ++i) {
    std::memcpy(digests + 16 * i, fingerprints[i].digest.bytes.data(), 16);
  }
  const flatbuffers::Offset<flatbuffers::Vector<std::uint64_t>> counts[] = {
      column(builder, fingerprints, &Statistics::count),
      column(builder, fingerprints, &Statistics::nan),
      column(builder, fingerprints, &Statistics::positive_infinity),
      column(builder, fingerprints, &Statistics::negative_infinity),
      column(builder, fingerprints, &Statistics::zero)};
  const flatbuffers::Offset<flatbuffers::Vector<double>> values[] = {
      column(builder, fingerprints, &Statistics::min), column(builder, fingerprints, &Statistics::max),
      column(builder, fingerprints, &Statistics::absmax),
      column(builder, fingerprints, &Statistics::sum),
      column(builder, fingerprints, &Statistics::sum_of_squares)};
  fb::FinishFingerprintsBuffer(
      builder, fb::CreateFingerprints(builder, kVersion, digest, counts[0], counts[1], counts[2],
                                      counts[3], counts[4], values[0], values[1], values[2],
                                      values[3], values[4]));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

std::vector<SliceFingerprint> decode_fingerprints(std::span<const std::byte> bytes,
                                                  std::size_t slices) {
  // Copied, because the verifier wants 8-byte alignment of memory and the caller promises none.
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  auto* data = aligned.data();
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  const auto* begin = reinterpret_cast<const std::uint8_t*>(data);
  flatbuffers::Verifier verifier(begin, bytes.size(), /*max_depth=*/4, /*max_tables=*/4);
  if (bytes.size() < 16 || !fb::FingerprintsBufferHasIdentifier(begin) ||
      !fb::VerifyFingerprintsBuffer(verifier)) {
    throw Error(ErrorCode::corrupt, "Fingerprints record: not a whole record");
  }
  const auto* record = fb::GetFingerprints(begin);
  if (record->version() != kVersion) {
    throw Error(ErrorCode::incompatible, "Fingerprints record: version " +
                                             std::to_string(record->version()) +
                                             "; this gradstore reads version " +
                                             std::to_string(kVersion) + ": use a newer one");
  }
  const auto* digests = record->digest();
  if (digests == nullptr || digests->size() != 16 * slices) {
    throw Error(ErrorCode::corrupt, "Fingerprints record: not one digest per slice of the layout");
  }
  std::vector<SliceFingerprint> fingerprints(slices);
  for (std::size_t i = 0; i < slices; ++i) {
    std::memcpy(fingerprints[i].digest.bytes.data(), digests->data() + 16 * i, 16);
  }
  read_column(record->count(), fingerprints, &Statistics::count);
  read_column(record->nan(), fingerprints, &Statistics::nan);
  read_column(record->positive_infinity(), fingerprints, &Statistics::positive_infinity);
  read_column(record->negative_infinity(), fingerprints, &Statistics::negative_infinity);
  read_column(record->zero(), fingerprints, &Statistics::zero);
  read_column(record->min(), fingerprints, &Statistics::min);
  read_column(record->max(), fingerprints, &Statistics::max);
  read_column(record->absmax(), fingerprints, &Statistics::absmax);
  read_column(record->sum(), fingerprints, &Statistics::sum);
  read_column(record->sum_of_squares(), fingerprints, &Statistics::sum_of_squares);
  return fingerprints;
}

}  // namespace gradstore::archive
