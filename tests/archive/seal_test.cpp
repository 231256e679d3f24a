#include "archive/seal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/fails_with.h"

namespace gradstore::archive {
namespace {

Seal sample() {
  Seal seal;
  seal.kind = LayoutKind::gradients;
  for (std::size_t i = 0; i < 16; ++i) seal.store[i] = static_cast<std::byte>(0xa0 + i);
  seal.id = {2, 42};
  seal.rank = 3;
  seal.world_size = 8;
  seal.step = 1000;
  seal.micro_step = 5;
  seal.stage = Stage::clipped;
  seal.file_length = 65536;
  seal.hdf5_end = 65000;
  seal.metadata = {{4096, 1234}, digest_of({})};
  seal.layout = {{8192, 500}, digest_of({})};
  seal.fingerprints = {{8704, 300}, digest_of({})};
  seal.manifest = {{12288, 4096}, digest_of({})};
  seal.slices = {16384, 48616};
  return seal;
}

std::uint64_t u64_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void put_checksum(std::span<std::byte> bytes) {
  const auto checksum = checksum64_of(bytes.first(kSealBytes - 8));
  std::memcpy(bytes.data() + kSealBytes - 8, &checksum, sizeof checksum);
}

TEST(SealTest, RoundTrips) {
  const auto bytes = encode(sample());
  EXPECT_EQ(decode_seal(bytes), sample());
}

TEST(SealTest, FieldsLieWhereTheFormatSays) {
  const auto bytes = encode(sample());
  EXPECT_EQ(std::memcmp(bytes.data(), "GRDSEAL\n\x01\0\0\0\x01\0\0\0", 16), 0);
  EXPECT_EQ(bytes[16], std::byte{0xa0});
  EXPECT_EQ(bytes[31], std::byte{0xaf});
  EXPECT_EQ(u64_at(bytes, 32), 2u);
  EXPECT_EQ(u64_at(bytes, 40), 42u);
  EXPECT_EQ(u64_at(bytes, 48), 3u | 8ull << 32);
  EXPECT_EQ(u64_at(bytes, 56), 1000u);
  EXPECT_EQ(u64_at(bytes, 64), 5u | 3ull << 32);
  EXPECT_EQ(u64_at(bytes, 72), 65536u);
  EXPECT_EQ(u64_at(bytes, 80), 65000u);
  EXPECT_EQ(u64_at(bytes, 88), 0u);
  EXPECT_EQ(u64_at(bytes, 96), 4096u);
  EXPECT_EQ(u64_at(bytes, 104), 1234u);
  EXPECT_EQ(u64_at(bytes, 96 + 4 * 32), 16384u);
  EXPECT_EQ(std::memcmp(bytes.data() + 256, root_digest(sample()).bytes.data(), 16), 0);
  for (std::size_t i = 272; i < kSealBytes - 8; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;
  EXPECT_EQ(u64_at(bytes, kSealBytes - 8), checksum64_of(std::span(bytes).first(kSealBytes - 8)));
}

TEST(SealTest, EveryFlippedBitIsNoticed) {
  auto bytes = encode(sample());
  for (std::size_t bit = 0; bit < 8 * kSealBytes; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THROW(decode_seal(bytes), Error) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(SealTest, EveryTruncationIsNoticed) {
  const auto bytes = encode(sample());
  for (std::size_t length = 0; length < kSealBytes; ++length) {
    EXPECT_THAT([&] { decode_seal(std::span(bytes).first(length)); },
                testing::fails_with(ErrorCode::corrupt));
  }
}

TEST(SealTest, NewerVersionIsIncompatibleNotCorrupt) {
  auto bytes = encode(sample());
  bytes[8] = std::byte{2};
  put_checksum(bytes);
  EXPECT_THAT([&] { decode_seal(bytes); },
              testing::fails_with(ErrorCode::incompatible, "version 2"));
}

TEST(SealTest, NonZeroReservedBytesAreRefusedEvenWithAValidChecksum) {
  auto bytes = encode(sample());
  bytes[300] = std::byte{1};
  put_checksum(bytes);
  EXPECT_THAT([&] { decode_seal(bytes); }, testing::fails_with(ErrorCode::corrupt));
}

TEST(SealTest, RootDigestDependsOnEveryRegionButNotOnTheId) {
  auto other = sample();
  other.id.sequence = 43;
  EXPECT_EQ(root_digest(other), root_digest(sample()));
  other.fingerprints.digest.bytes[0] ^= std::byte{1};
  EXPECT_NE(root_digest(other), root_digest(sample()));
}

}  // namespace
}  // namespace gradstore::archive
