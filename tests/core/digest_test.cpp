#include "core/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradstore {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// 0, 1, ..., 255, 0, 1, ...
std::vector<std::byte> counting_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// The expected digests are from the Python package xxhash (xxh3_128_hexdigest, xxh3_64_hexdigest).
TEST(DigestTest, KnownBytesHaveTheirPublishedDigests) {
  EXPECT_EQ(to_string(digest_of({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_string(digest_of(bytes_of("abc"))), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(to_string(digest_of(bytes_of("gradstore"))), "21f11b1d699f2d0d764af45f644c4118");
  EXPECT_EQ(to_string(digest_of(counting_bytes(1024))), "83885e853bb6640ca870f92984398d22");
}

TEST(DigestTest, KnownBytesHaveTheirPublishedChecksums) {
  EXPECT_EQ(checksum64_of({}), 0x2d06800538d394c2u);
  EXPECT_EQ(checksum64_of(bytes_of("gradstore")), 0x75224d05abd4b41eu);
  EXPECT_EQ(checksum64_of(counting_bytes(1024)), 0xa870f92984398d22u);
}

TEST(DigestTest, BytesAreInTheOrderOfTheText) {
  const auto digest = digest_of(bytes_of("gradstore"));
  EXPECT_EQ(digest.bytes[0], std::byte{0x21});
  EXPECT_EQ(digest.bytes[15], std::byte{0x18});
}

TEST(DigestTest, OneFlippedBitChangesTheDigest) {
  auto bytes = counting_bytes(5000);
  const auto before = digest_of(bytes);
  for (const std::size_t i : {0, 2500, 4999}) {
    bytes[i] ^= std::byte{1};
    EXPECT_NE(digest_of(bytes), before) << i;
    bytes[i] ^= std::byte{1};
  }
}

TEST(DigestStreamTest, PiecesOfAnySizeGiveTheDigestOfTheWhole) {
  const auto bytes = counting_bytes(100'003);
  const std::span whole(bytes);
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{7}, std::size_t{4096}, whole.size()}) {
    SCOPED_TRACE(piece);
    DigestStream stream;
    for (std::size_t i = 0; i < whole.size(); i += piece) {
      stream.add(whole.subspan(i, std::min(piece, whole.size() - i)));
    }
    EXPECT_EQ(stream.digest(), digest_of(whole));
  }
}

TEST(DigestStreamTest, StreamWithoutBytesIsTheDigestOfNothing) {
  DigestStream stream;
  EXPECT_EQ(stream.digest(), digest_of({}));
  stream.add({});
  EXPECT_EQ(stream.digest(), digest_of({}));
}

TEST(DigestStreamTest, DigestMayBeAskedOnTheWayAndResetStartsAnew) {
  DigestStream stream;
  stream.add(bytes_of("grad"));
  EXPECT_EQ(stream.digest(), digest_of(bytes_of("grad")));
  stream.add(bytes_of("store"));
  EXPECT_EQ(stream.digest(), digest_of(bytes_of("gradstore")));
  stream.reset();
  stream.add(bytes_of("abc"));
  EXPECT_EQ(stream.digest(), digest_of(bytes_of("abc")));
}

TEST(DigestStreamTest, MovedStreamGoesOnWhereItWas) {
  DigestStream first;
  first.add(bytes_of("grad"));
  DigestStream second(std::move(first));
  second.add(bytes_of("store"));
  EXPECT_EQ(second.digest(), digest_of(bytes_of("gradstore")));
}

}  // namespace
}  // namespace gradstore
