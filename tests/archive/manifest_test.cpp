#include "archive/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "support/fails_with.h"

namespace gradstore::archive {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Manifest sample_manifest() {
  Manifest manifest;
  manifest.store_uuid = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  manifest.run_name = "a \"run\"";
  manifest.id = {2, 42};
  manifest.rank = 3;
  manifest.world_size = 8;
  manifest.metadata = {1000, 5, 8, Stage::clipped, 65536.25, R"({"position":[1,2],"text":"é"})"};
  manifest.created_unix_ns = 1'764'556'164'123'456'789;
  manifest.state_id = SnapshotId{2, 41};
  manifest.setup = {8, 3, true};
  manifest.overlapping_slices = {{0, 7}, {3, 4}};
  manifest.writer = "gradstore 0.1.0";
  return manifest;
}

std::string padded(std::string text) {
  text.resize(4096, ' ');
  return text;
}

TEST(ManifestTest, RoundTripsThroughItsPaddedSlot) {
  const auto manifest = sample_manifest();
  const auto read = decode_manifest(bytes_of(padded(encode(manifest))));
  EXPECT_EQ(read.id, manifest.id);
  EXPECT_EQ(read.run_name, manifest.run_name);
  EXPECT_EQ(read.metadata.step, 1000u);
  EXPECT_EQ(read.metadata.micro_step, 5u);
  EXPECT_EQ(read.metadata.accumulation_steps, 8u);
  EXPECT_EQ(read.metadata.stage, Stage::clipped);
  EXPECT_EQ(read.metadata.loss_scale, 65536.25);
  EXPECT_EQ(read.metadata.user_json, manifest.metadata.user_json);
  EXPECT_EQ(read.created_unix_ns, manifest.created_unix_ns);
  EXPECT_EQ(read.state_id, manifest.state_id);
  EXPECT_EQ(read.setup, manifest.setup);
  EXPECT_EQ(read.overlapping_slices, manifest.overlapping_slices);
}

TEST(ManifestTest, TextIsAsTheFormatSays) {
  EXPECT_EQ(encode(sample_manifest()), R"({
 "format": "gradstore manifest",
 "version": 1,
 "snapshot": "0002-00000042",
 "store_uuid": "f81d4fae-7dec-41d0-a765-00a0c91e6bf6",
 "run_name": "a \"run\"",
 "rank": 3,
 "world_size": 8,
 "step": 1000,
 "micro_step": 5,
 "accumulation_steps": 8,
 "stage": "clipped",
 "loss_scale": "65536.25",
 "created": "2025-12-01T02:29:24.123456789Z",
 "created_unix_ns": 1764556164123456789,
 "state": "0002-00000041",
 "gradient_store": {
  "world_size": 8,
  "local_rank": 3,
  "partition_grad": true
 },
 "overlapping_slices": [
  [
   0,
   7
  ],
  [
   3,
   4
  ]
 ],
 "writer": "gradstore 0.1.0",
 "user": {
  "position": [
   1,
   2
  ],
  "text": "é"
 }
})");
}

TEST(ManifestTest, EveryFlippedBitIsRefusedOrReadsAsAnotherManifest) {
  const auto text = encode(sample_manifest());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      try {
        decode_manifest(bytes_of(damaged));
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::incompatible)
            << error.what();
      }
    }
  }
}

TEST(ManifestTest, WhatALaterVersionAddedIsLeftAlone) {
  auto text = encode(sample_manifest());
  text.insert(1, R"("new": {"deep": [1, 2]},)");
  EXPECT_EQ(decode_manifest(bytes_of(text)).id, sample_manifest().id);
}

TEST(ManifestTest, AnInfiniteLossScaleSurvives) {
  auto manifest = sample_manifest();
  manifest.metadata.loss_scale = INFINITY;
  EXPECT_EQ(decode_manifest(bytes_of(encode(manifest))).metadata.loss_scale, INFINITY);
}

TEST(ManifestTest, UserJsonThatIsNotJsonIsRefusedBeforeAnythingIsWritten) {
  auto manifest = sample_manifest();
  manifest.metadata.user_json = "{step: 1}";
  EXPECT_THAT([&] { encode(manifest); },
              testing::fails_with(ErrorCode::invalid_argument, "{step: 1}"));
}

TEST(ManifestTest, ANewerVersionIsIncompatible) {
  auto text = encode(sample_manifest());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_THAT([&] { decode_manifest(bytes_of(text)); },
              testing::fails_with(ErrorCode::incompatible, "version 2"));
}

TEST(ManifestTest, EveryTruncationIsCorrupt) {
  const auto text = encode(sample_manifest());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THAT([&] { decode_manifest(bytes_of(text).first(length)); },
                testing::fails_with(ErrorCode::corrupt));
  }
}

TEST(ManifestTest, TimesAreIso8601InUtc) {
  EXPECT_EQ(to_iso8601(1'764'556'164'123'456'789), "2025-12-01T02:29:24.123456789Z");
  EXPECT_EQ(to_iso8601(-1), "1969-12-31T23:59:59.999999999Z");
}

}  // namespace
}  // namespace gradstore::archive
