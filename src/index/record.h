// What all records (schemas/*.fbs) have in common: a FlatBuffer with a four-letter identifier,
// whose root table's first field is the version. Internal to those who encode and decode records.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gradstore::index {

struct RecordKind {
  const char* name;        ///< For messages: "Layout record".
  const char* identifier;  ///< Four letters.
  std::uint32_t version;   ///< The newest this program knows.
};

/// Refuses to encode a record that FlatBuffers' 31-bit offsets might not hold.
/// Errors: Error{invalid_argument}.
void require_encodable(const RecordKind& kind, std::uint64_t bytes);

/// The finished buffer's bytes.
std::string finished_record(const flatbuffers::FlatBufferBuilder& builder);

/// The bytes of one record, copied to aligned memory and checked before they are looked at.
class VerifiedRecord {
 public:
  /// Errors: Error{corrupt} not such a record; {incompatible} a newer version.
  VerifiedRecord(std::span<const std::byte> bytes, const RecordKind& kind);

  /// The root table; lives as long as this. Errors: Error{corrupt}.
  template <class Root>
  const Root& root() const {
    // All records are one table without tables in it.
    flatbuffers::Verifier verifier(data(), size_, /*max_depth=*/2, /*max_tables=*/1);
    if (!verifier.VerifyBuffer<Root>(kind_.identifier)) refuse("it is damaged");
    return *flatbuffers::GetRoot<Root>(data());
  }

  /// A vector of the root table. Errors: Error{corrupt} when it is missing or misaligned (which
  /// the verifier does not see).
  template <class T>
  std::span<const T> column(const flatbuffers::Vector<T>* vector) const {
    if (vector == nullptr) refuse("a column is missing");
    const auto address = reinterpret_cast<std::uintptr_t>(vector->Data());
    if (vector->size() > 0 && address % alignof(T) != 0) {
      refuse("a column is misaligned");
    }
    return {reinterpret_cast<const T*>(vector->Data()), vector->size()};
  }

  /// Throws Error{corrupt} unless all columns have `size` entries.
  template <class... Columns>
  void require_size(std::size_t size, const Columns&... columns) const {
    if (((columns.size() != size) || ...)) refuse("its columns disagree in length");
  }

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(words_.data()); }
  void check_version() const;

  RecordKind kind_;
  std::size_t size_;
  std::vector<std::uint64_t> words_;
};

}  // namespace gradstore::index
