#include "core/digest.h"

#include <xxhash.h>

#include <new>

namespace gradstore {

namespace {

Digest128 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Digest128 digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = std::byte{bytes.digest[i]};
  return digest;
}

}  // namespace

struct DigestStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

std::string to_string(const Digest128& digest) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (const auto byte : digest.bytes) {
    text += kHex[std::to_integer<unsigned>(byte) >> 4];
    text += kHex[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Digest128 digest_of(std::span<const std::byte> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::uint64_t checksum64_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

DigestStream::DigestStream() : state_(std::make_unique<State>()) { reset(); }
DigestStream::~DigestStream() = default;
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;

void DigestStream::reset() { XXH3_128bits_reset(state_->xxh); }

void DigestStream::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Digest128 DigestStream::digest() const { return canonical(XXH3_128bits_digest(state_->xxh)); }

}  // namespace gradstore
