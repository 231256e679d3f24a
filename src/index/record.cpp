#include "index/record.h"

#include <cstring>

#include "gradstore/error.h"

namespace gradstore::index {

namespace {

constexpr std::uint64_t kLongestRecord = std::uint64_t{1} << 30;
constexpr flatbuffers::voffset_t kVersionField = 4;  // The first entry of every vtable.

// Any record, as far as its version.
struct Versioned : flatbuffers::Table {
  bool Verify(flatbuffers::Verifier& verifier) const {
    return VerifyTableStart(verifier) &&
           VerifyField<std::uint32_t>(verifier, kVersionField, sizeof(std::uint32_t)) &&
           verifier.EndTable();
  }
  std::uint32_t version() const { return GetField<std::uint32_t>(kVersionField, 0); }
};

}  // namespace

void require_encodable(const RecordKind& kind, std::uint64_t bytes) {
  if (bytes > kLongestRecord) {
    throw Error(ErrorCode::invalid_argument, std::string(kind.name) + ": it would have more than " +
                                                 std::to_string(kLongestRecord) + " bytes");
  }
}

std::string finished_record(const flatbuffers::FlatBufferBuilder& builder) {
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

VerifiedRecord::VerifiedRecord(std::span<const std::byte> bytes, const RecordKind& kind)
    : kind_(kind), size_(bytes.size()) {
  if (size_ > kLongestRecord) refuse("it is longer than any record");
  words_.resize((size_ + 7) / 8);
  if (size_ > 0) std::memcpy(words_.data(), bytes.data(), size_);
  check_version();
}

// Looked at first and by itself: a newer version may have changed everything else.
void VerifiedRecord::check_version() const {
  flatbuffers::Verifier verifier(data(), size_, /*max_depth=*/2, /*max_tables=*/1);
  if (!verifier.VerifyBuffer<Versioned>(kind_.identifier)) {
    refuse("it is damaged, or something else");
  }
  const auto version = flatbuffers::GetRoot<Versioned>(data())->version();
  if (version == 0) refuse("it has no version");
  if (version > kind_.version) {
    throw Error(ErrorCode::incompatible,
                std::string(kind_.name) + ": it has version " + std::to_string(version) +
                    ", this program knows up to " + std::to_string(kind_.version));
  }
}

void VerifiedRecord::refuse(const std::string& what) const {
  throw Error(ErrorCode::corrupt, std::string(kind_.name) + ": " + what);
}

}  // namespace gradstore::index
