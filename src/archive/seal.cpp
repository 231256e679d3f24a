#include "archive/seal.h"

#include <algorithm>
#include <cstring>

#include "gradstore/error.h"

namespace gradstore::archive {

namespace {

constexpr char kMagic[8] = {'G', 'R', 'D', 'S', 'E', 'A', 'L', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumOffset = kSealBytes - 8;
constexpr std::size_t kRegionsOffset = 96;  // FORMAT.md, "Seal"
constexpr std::size_t kRegionBytes = 32;

// Little-endian machines only (checked at configure time): a field is its own encoding.
template <typename T>
void put(std::span<std::byte> bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.subspan(offset, sizeof value).data(), &value, sizeof value);
}

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

void put_region(std::span<std::byte> bytes, std::size_t number, const Region& region) {
  const auto offset = kRegionsOffset + number * kRegionBytes;
  put(bytes, offset, region.extent.offset);
  put(bytes, offset + 8, region.extent.length);
  put(bytes, offset + 16, region.digest.bytes);
}

Region get_region(std::span<const std::byte> bytes, std::size_t number) {
  const auto offset = kRegionsOffset + number * kRegionBytes;
  Region region;
  region.extent = {get<std::uint64_t>(bytes, offset), get<std::uint64_t>(bytes, offset + 8)};
  region.digest.bytes = get<decltype(Digest128::bytes)>(bytes, offset + 16);
  return region;
}

constexpr std::size_t kRegions = 5;

void put_regions(std::span<std::byte> bytes, const Seal& seal) {
  put_region(bytes, 0, seal.metadata);
  put_region(bytes, 1, seal.layout);
  put_region(bytes, 2, seal.fingerprints);
  put_region(bytes, 3, seal.manifest);
  put_region(bytes, 4, {seal.slices, {}});
}

}  // namespace

Digest128 root_digest(const Seal& seal) {
  std::array<std::byte, kRegionsOffset + kRegions * kRegionBytes> bytes{};
  put_regions(bytes, seal);
  return digest_of(std::span(bytes).subspan(kRegionsOffset));
}

std::array<std::byte, kSealBytes> encode(const Seal& seal) {
  std::array<std::byte, kSealBytes> bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 8, kVersion);
  put(bytes, 12, static_cast<std::uint32_t>(seal.kind));
  put(bytes, 16, seal.store);
  put(bytes, 32, seal.id.attempt);
  put(bytes, 40, seal.id.sequence);
  put(bytes, 48, seal.rank);
  put(bytes, 52, seal.world_size);
  put(bytes, 56, seal.step);
  put(bytes, 64, seal.micro_step);
  put(bytes, 68, static_cast<std::uint32_t>(seal.stage));
  put(bytes, 72, seal.file_length);
  put(bytes, 80, seal.hdf5_end);
  put_regions(bytes, seal);
  put(bytes, kRegionsOffset + kRegions * kRegionBytes, root_digest(seal).bytes);
  put(bytes, kChecksumOffset, checksum64_of(std::span(bytes).first(kChecksumOffset)));
  return bytes;
}

Seal decode_seal(std::span<const std::byte> bytes) {
  if (bytes.size() < kSealBytes) throw Error(ErrorCode::corrupt, "Seal: the file ends inside it");
  bytes = bytes.first(kSealBytes);
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    throw Error(ErrorCode::corrupt, "Seal: the file does not begin with one");
  }
  // The checksum stays where it is in every version, so that damage is told from novelty.
  if (get<std::uint64_t>(bytes, kChecksumOffset) != checksum64_of(bytes.first(kChecksumOffset))) {
    throw Error(ErrorCode::corrupt, "Seal: its checksum does not match");
  }
  if (const auto version = get<std::uint32_t>(bytes, 8); version != kVersion) {
    throw Error(ErrorCode::incompatible, "Seal: format version " + std::to_string(version) +
                                             "; this gradstore reads version " +
                                             std::to_string(kVersion) + ": use a newer one");
  }
  Seal seal;
  const auto kind = get<std::uint32_t>(bytes, 12);
  const auto stage = get<std::uint32_t>(bytes, 68);
  if (kind < 1 || kind > 2 || stage > 0xff || !stage_from_code(static_cast<std::uint8_t>(stage))) {
    throw Error(ErrorCode::corrupt, "Seal: unknown kind or stage");
  }
  seal.kind = static_cast<LayoutKind>(kind);
  seal.store = get<StoreUuid>(bytes, 16);
  seal.id = {get<std::uint64_t>(bytes, 32), get<std::uint64_t>(bytes, 40)};
  seal.rank = get<std::uint32_t>(bytes, 48);
  seal.world_size = get<std::uint32_t>(bytes, 52);
  seal.step = get<std::uint64_t>(bytes, 56);
  seal.micro_step = get<std::uint32_t>(bytes, 64);
  seal.stage = static_cast<Stage>(stage);
  seal.file_length = get<std::uint64_t>(bytes, 72);
  seal.hdf5_end = get<std::uint64_t>(bytes, 80);
  seal.metadata = get_region(bytes, 0);
  seal.layout = get_region(bytes, 1);
  seal.fingerprints = get_region(bytes, 2);
  seal.manifest = get_region(bytes, 3);
  seal.slices = get_region(bytes, 4).extent;
  // Whatever a valid checksum covers must also be what encode() would write.
  if (!std::ranges::equal(encode(seal), bytes))
    throw Error(ErrorCode::corrupt, "Seal: not canonical");
  return seal;
}

}  // namespace gradstore::archive
