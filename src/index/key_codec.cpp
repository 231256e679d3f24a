#include "index/key_codec.h"

#include <cstring>

#include "gradstore/error.h"

namespace gradstore::index {

namespace {

template <class Integer>
void append(std::string& bytes, Integer value) {
  for (std::size_t i = sizeof value; i-- > 0;) bytes += static_cast<char>(value >> (8 * i));
}

void append(std::string& bytes, const TrainingPoint& point) {
  append(bytes, point.step);
  append(bytes, point.micro_step);
  append(bytes, static_cast<std::uint8_t>(point.stage));
}

void append(std::string& bytes, SnapshotId id) {
  append(bytes, id.attempt);
  append(bytes, id.sequence);
}

// Takes fields off the front of a key of known length.
class Fields {
 public:
  Fields(std::string_view bytes, std::size_t length, const char* what) : rest_(bytes) {
    if (bytes.size() != length) {
      throw Error(ErrorCode::corrupt, std::string("Index: a key of ") + what + " has " +
                                          std::to_string(bytes.size()) + " bytes instead of " +
                                          std::to_string(length));
    }
  }

  template <class Integer>
  Integer integer() {
    Integer value = 0;
    for (const char byte : take(sizeof value)) {
      value = static_cast<Integer>((std::uint64_t{value} << 8) | static_cast<unsigned char>(byte));
    }
    return value;
  }

  Digest128 digest() {
    Digest128 digest;
    std::memcpy(digest.bytes.data(), take(digest.bytes.size()).data(), digest.bytes.size());
    return digest;
  }

  SnapshotId id() {
    SnapshotId id;
    id.attempt = integer<std::uint64_t>();
    id.sequence = integer<std::uint64_t>();
    return id;
  }

 private:
  std::string_view take(std::size_t length) {
    const auto field = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return field;
  }

  std::string_view rest_;
};

}  // namespace

std::string encode(SnapshotId id) {
  std::string bytes;
  append(bytes, id);
  return bytes;
}

std::string encode(const TrainingPoint& point) {
  std::string bytes;
  append(bytes, point);
  return bytes;
}

std::string encode(const StepKey& key) {
  std::string bytes;
  append(bytes, key.point);
  append(bytes, key.id);
  return bytes;
}

std::string encode(const Digest128& layout) {
  return {reinterpret_cast<const char*>(layout.bytes.data()), layout.bytes.size()};
}

std::string encode(const PageKey& key) {
  std::string bytes = encode(key.layout);
  append(bytes, key.page);
  append(bytes, key.id);
  return bytes;
}

std::string encode_number(std::uint32_t number) {
  std::string bytes;
  append(bytes, number);
  return bytes;
}

SnapshotId decode_snapshot_key(std::string_view bytes) {
  return Fields(bytes, 16, "snapshots").id();
}

StepKey decode_step_key(std::string_view bytes) {
  Fields fields(bytes, 29, "steps");
  StepKey key;
  key.point.step = fields.integer<std::uint64_t>();
  key.point.micro_step = fields.integer<std::uint32_t>();
  const auto stage = stage_from_code(fields.integer<std::uint8_t>());
  if (!stage) throw Error(ErrorCode::corrupt, "Index: a key of steps has an unknown stage");
  key.point.stage = *stage;
  key.id = fields.id();
  return key;
}

PageKey decode_page_key(std::string_view bytes) {
  Fields fields(bytes, 36, "pages");
  PageKey key;
  key.layout = fields.digest();
  key.page = fields.integer<std::uint32_t>();
  key.id = fields.id();
  return key;
}

std::uint32_t decode_number(std::string_view bytes) {
  return Fields(bytes, 4, "meta").integer<std::uint32_t>();
}

}  // namespace gradstore::index
