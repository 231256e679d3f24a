#include "index/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "index/damaged_record.h"
#include "index/fingerprints_record.h"
#include "support/fails_with.h"

namespace gradstore::index {
namespace {

using gradstore::testing::fails_with;

constexpr RecordKind kKind{"Some record", "GSFP", 1};

// A fingerprints record of no slices, with fields that this version does not know.
std::string record_with_new_fields() {
  constexpr int kKnownVectors = 10;
  constexpr auto slot = [](int field) {
    return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
  };
  flatbuffers::FlatBufferBuilder builder;
  const auto empty = builder.CreateVector(std::vector<std::uint64_t>());
  const auto text = builder.CreateString("from the future");
  const auto table = builder.StartTable();
  builder.AddElement<std::uint32_t>(slot(0), 1, 0);
  for (int field = 1; field <= kKnownVectors; ++field) builder.AddOffset(slot(field), empty);
  builder.AddOffset(slot(20), text);
  builder.AddElement<double>(slot(30), 0.5, 0);
  builder.Finish(flatbuffers::Offset<flatbuffers::Table>(builder.EndTable(table)),
                 kKind.identifier);
  return finished_record(builder);
}

TEST(RecordTest, FieldsThatALaterVersionAddedAreLeftAlone) {
  const auto bytes = record_with_new_fields();
  EXPECT_TRUE(decode_fingerprints(bytes_of(bytes), {}).empty());
}

TEST(RecordTest, AMissingColumnIsCorruptNotEmpty) {
  flatbuffers::FlatBufferBuilder builder;
  const auto table = builder.StartTable();
  builder.AddElement<std::uint32_t>(4, 1, 0);
  builder.Finish(flatbuffers::Offset<flatbuffers::Table>(builder.EndTable(table)),
                 kKind.identifier);
  const auto bytes = finished_record(builder);
  EXPECT_THAT([&] { decode_fingerprints(bytes_of(bytes), {}); },
              fails_with(ErrorCode::corrupt, "a column is missing"));
}

// FlatBuffers' offsets have 31 bits, and its builder stops the process where they do not suffice.
TEST(RecordTest, WhatFlatBuffersCannotHoldIsRefusedBeforeItIsBuilt) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;
  EXPECT_NO_THROW(require_encodable(kKind, kLimit));
  EXPECT_THAT([] { require_encodable(kKind, kLimit + 1); },
              fails_with(ErrorCode::invalid_argument, "Some record"));
}

}  // namespace
}  // namespace gradstore::index
