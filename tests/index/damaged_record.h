// What every decoder of records is put through.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "gradstore/error.h"
#include "index/index_samples.h"

namespace gradstore::index {

/// `bytes` with another version. The version is the first field of the root table: FlatBuffers'
/// root offset -> table -> vtable -> third entry.
inline std::string with_version(std::string bytes, std::uint32_t version) {
  std::uint32_t table = 0;
  std::int32_t to_vtable = 0;
  std::uint16_t field = 0;
  std::memcpy(&table, bytes.data(), sizeof table);
  std::memcpy(&to_vtable, bytes.data() + table, sizeof to_vtable);
  std::memcpy(&field, bytes.data() + static_cast<std::int64_t>(table) - to_vtable + 4,
              sizeof field);
  std::memcpy(bytes.data() + table + field, &version, sizeof version);
  return bytes;
}

/// Damaged bytes are refused, or are a record in their own right that encodes again. What the bits
/// mean is covered by the digests and checksums around records, not by the decoder.
template <class Decode, class Encode>
void expect_refused_or_valid(const std::string& bytes, Decode decode, Encode encode_again) {
  try {
    const auto record = decode(bytes_of(bytes));
    EXPECT_FALSE(encode_again(record).empty());
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::incompatible)
        << error.what();
  }
}

template <class Decode, class Encode>
void expect_damage_is_survived(const std::string& bytes, Decode decode, Encode encode_again) {
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    try {
      // Only zeros that pad the end may be missing.
      EXPECT_EQ(encode_again(decode(bytes_of(bytes.substr(0, length)))), bytes);
      EXPECT_GT(length + 8, bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    SCOPED_TRACE(i);
    for (const int mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      auto damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      expect_refused_or_valid(damaged, decode, encode_again);
    }
  }
}

inline std::string hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace gradstore::index
