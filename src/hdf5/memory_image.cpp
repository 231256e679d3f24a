#include "hdf5/memory_image.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "gradstore/error.h"

namespace gradstore::hdf5 {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::internal, "libhdf5 asked its file driver to " + what);
}

}  // namespace

MemoryImage::MemoryImage(const archive::Placement& placement,
                         std::span<const archive::Extent> datasets, std::uint64_t metadata_hint)
    : end_(placement.hdf5_end), metadata_limit_(placement.metadata.end()) {
  const auto has_bytes = [](const archive::Extent& extent) { return extent.length > 0; };
  raw_.reserve(3 + datasets.size());
  std::ranges::copy_if(std::array{placement.layout, placement.fingerprints, placement.manifest},
                       std::back_inserter(raw_), has_bytes);
  std::ranges::copy_if(datasets, std::back_inserter(raw_), has_bytes);
  metadata_.reserve(static_cast<std::size_t>(metadata_hint));
}

std::uint64_t MemoryImage::allocate_metadata(std::uint64_t length) {
  if (length > metadata_limit_ - metadata_end_) {
    refuse("allocate " + std::to_string(length) + " bytes of metadata at " +
           std::to_string(metadata_end_) + ", where raw data begins at " +
           std::to_string(metadata_limit_));
  }
  return std::exchange(metadata_end_, metadata_end_ + length);
}

std::uint64_t MemoryImage::allocate_raw(std::uint64_t length) {
  if (all_raw_allocated()) {
    refuse("allocate " + std::to_string(length) + " bytes of raw data after the last dataset");
  }
  const auto& next = raw_[next_raw_];
  if (length != next.length) {
    refuse("allocate " + std::to_string(length) + " bytes of raw data, where extent " +
           std::to_string(next_raw_) + " has " + std::to_string(next.length));
  }
  ++next_raw_;
  return next.offset;
}

void MemoryImage::set_end(std::uint64_t end) {
  if (begun_ || end != archive::kSealBytes) refuse("end the file at " + std::to_string(end));
  begun_ = true;
}

void MemoryImage::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  require_metadata(offset, bytes.size(), "write");
  const auto start = static_cast<std::size_t>(offset - archive::kSealBytes);
  if (metadata_.size() < start + bytes.size()) metadata_.resize(start + bytes.size());
  std::ranges::copy(bytes, metadata_.begin() + static_cast<std::ptrdiff_t>(start));
}

void MemoryImage::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  require_metadata(offset, bytes.size(), "read");
  const auto start =
      std::min(static_cast<std::size_t>(offset - archive::kSealBytes), metadata_.size());
  const auto written =
      std::span(metadata_).subspan(start, std::min(bytes.size(), metadata_.size() - start));
  const auto rest = std::ranges::copy(written, bytes.begin()).out;
  std::fill(rest, bytes.end(), std::byte{0});
}

std::vector<std::byte> MemoryImage::take_metadata() {
  metadata_.resize(static_cast<std::size_t>(metadata_bytes()));
  return std::move(metadata_);
}

void MemoryImage::require_metadata(std::uint64_t offset, std::uint64_t length,
                                   const char* verb) const {
  if (offset < archive::kSealBytes || offset > metadata_end_ || length > metadata_end_ - offset) {
    refuse(std::string(verb) + " " + std::to_string(length) + " bytes at " +
           std::to_string(offset) + ", where no metadata lies");
  }
}

}  // namespace gradstore::hdf5
