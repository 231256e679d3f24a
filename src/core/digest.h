// XXH3-128 checksums: they tell damage, not forgery.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gradstore {

/// XXH3-128 in its canonical (big-endian) byte order.
struct Digest128 {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const Digest128&) const = default;
};

/// 32 lower-case hexadecimal digits.
std::string to_string(const Digest128& digest);

Digest128 digest_of(std::span<const std::byte> bytes);
std::uint64_t checksum64_of(std::span<const std::byte> bytes);

/// Digest of bytes that arrive in pieces.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;

  void reset();
  void add(std::span<const std::byte> bytes);
  Digest128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gradstore
