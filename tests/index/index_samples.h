// Made-up contents of an index, a pure function of the snapshot id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"
#include "index/index.h"
#include "index/layout_record.h"

namespace gradstore::index {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// One group, one slice a param.
inline Layout sample_layout(std::size_t num_slices) {
  Layout layout;
  layout.groups = {{7}};
  for (std::uint32_t p = 0; p < num_slices; ++p) {
    layout.params.push_back(
        {"block/" + std::to_string(p), 0, DType::float32, Presence::captured, {3}});
    layout.slices.push_back({p, 0, DType::bfloat16, {4}, 0, 3, 1});
  }
  return layout;
}

inline SnapshotRow sample_row(SnapshotId id, const Layout& layout) {
  SnapshotRow row;
  row.info.id = id;
  row.info.metadata.step = 100 * id.attempt + id.sequence;
  row.info.metadata.micro_step = 2;
  row.info.metadata.accumulation_steps = 4;
  row.info.metadata.stage = Stage::unscaled;
  row.info.metadata.loss_scale = 65536.0;
  row.info.metadata.user_json = R"({"epoch": 3})";
  row.info.rank = 1;
  row.info.world_size = 8;
  row.info.created_unix_ns = 1'700'000'000'000'000'000;
  row.info.num_groups = layout.groups.size();
  row.info.num_params = layout.params.size();
  row.info.num_slices = layout.slices.size();
  row.info.gradient_bytes = 8 * layout.slices.size();
  row.info.file_bytes = 8192;
  row.layout_digest = digest_of(bytes_of(encode(layout)));
  row.root_digest = digest_of(bytes_of(to_string(id)));
  return row;
}

inline std::vector<kernels::SliceFingerprint> sample_fingerprints(SnapshotId id,
                                                                  const Layout& layout) {
  std::vector<kernels::SliceFingerprint> all;
  for (std::size_t s = 0; s < layout.slices.size(); ++s) {
    kernels::SliceFingerprint fingerprint;
    fingerprint.digest = digest_of(bytes_of(to_string(id) + "/" + std::to_string(s)));
    auto& statistics = fingerprint.statistics;
    statistics.count = layout.slices[s].end - layout.slices[s].begin;
    statistics.nan = s % 2;
    statistics.positive_infinity = id.sequence;
    statistics.negative_infinity = id.attempt;
    statistics.zero = s;
    if (s % 5 != 0) {  // Else: no finite element.
      statistics.min = -2.0 * static_cast<double>(s);
      statistics.max = static_cast<double>(id.sequence);
      statistics.absmax = std::max(-statistics.min, statistics.max);
    }
    statistics.sum = 0.1 * static_cast<double>(s);
    statistics.sum_of_squares = std::numeric_limits<double>::infinity();
    all.push_back(fingerprint);
  }
  return all;
}

/// Bit for bit: NaN equals itself.
inline bool same_bits(const std::vector<kernels::SliceFingerprint>& a,
                      const std::vector<kernels::SliceFingerprint>& b) {
  static_assert(sizeof(kernels::SliceFingerprint) == 16 + 11 * 8, "no gaps to compare");
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(kernels::SliceFingerprint)) == 0);
}

inline void put_sample(Index& index, SnapshotId id, const Layout& layout) {
  index.put_durable(sample_row(id, layout), layout, sample_fingerprints(id, layout));
}

/// All of it is there, and equal.
inline bool whole(const IndexReader& index, SnapshotId id, const Layout& layout) {
  const auto row = index.find(id);
  const auto expected = sample_row(id, layout);
  if (!row || encode(*row) != encode(expected)) return false;
  const auto& metadata = row->info.metadata;
  const auto ids = index.find(metadata.step, metadata.micro_step, metadata.stage);
  return ids == std::vector{id} && index.layout(row->layout_digest) == layout &&
         same_bits(index.fingerprints(*row, layout), sample_fingerprints(id, layout)) &&
         index.high_water() >= id;
}

/// None of it is there.
inline bool absent(const IndexReader& index, SnapshotId id, const Layout& layout) {
  const auto metadata = sample_row(id, layout).info.metadata;
  return !index.find(id) &&
         index.find(metadata.step, metadata.micro_step, metadata.stage).empty() &&
         index.high_water() < id;
}

inline std::vector<SnapshotId> ids_of(const std::vector<SnapshotRow>& rows) {
  std::vector<SnapshotId> ids;
  for (const auto& row : rows) ids.push_back(row.info.id);
  return ids;
}

}  // namespace gradstore::index
