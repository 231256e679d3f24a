#include "archive/file_reader.h"

#include "core/ensure.h"
#include "index/fingerprints_record.h"
#include "index/layout_record.h"

namespace gradstore::archive {

namespace {

constexpr std::uint64_t kLongestManifest = 1u << 30;

[[noreturn]] void refuse(const io::Path& path, const std::string& what) {
  throw Error(ErrorCode::corrupt, path.string() + ": " + what);
}

// Keeps the code and puts the file in front of a message from a layer that knows no files.
template <typename F>
auto naming(const io::Path& path, F f) {
  try {
    return f();
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
}

void check_identity(const io::Path& path, const Seal& seal, const FileIdentity& expected) {
  if (seal.store != expected.store) refuse(path, "belongs to another store (its uuid differs)");
  if (seal.rank != expected.rank) {
    refuse(path, "belongs to rank " + std::to_string(seal.rank) + ", not " +
                     std::to_string(expected.rank));
  }
  if (seal.id != expected.id)
    refuse(path, "is snapshot " + to_string(seal.id) + "'s file under another name");
  if (seal.kind != expected.kind) {
    refuse(path, expected.kind == LayoutKind::gradients ? "holds companion state, not gradients"
                                                        : "holds gradients, not companion state");
  }
}

// Regions must lie inside the file before anything is allocated for them.
void check_bounds(const io::Path& path, const Seal& seal, std::uint64_t length) {
  if (length != seal.file_length) {
    refuse(path, "is " + std::to_string(length) + " bytes long instead of " +
                     std::to_string(seal.file_length) +
                     (length < seal.file_length ? " (truncated)" : ""));
  }
  for (const auto* region : {&seal.metadata, &seal.layout, &seal.fingerprints, &seal.manifest}) {
    if (region->extent.offset > length || region->extent.length > length - region->extent.offset) {
      refuse(path, "Seal: a region lies outside the file");
    }
  }
  if (seal.manifest.extent.length > kLongestManifest)
    refuse(path, "Seal: the manifest is too long");
}

}  // namespace

std::string describe_slice(const Layout& layout, std::size_t number) {
  const auto& slice = layout.slices[number];
  return "param " + printable(layout.params[slice.param].name) + ", slice " +
         std::to_string(slice.position);
}

FileReader::FileReader(io::FileSystem& files, const io::Path& path, const FileIdentity& expected)
    : path_(path), file_(files.open(path, io::OpenMode::read)) {
  std::vector<std::byte> bytes(kSealBytes);
  bytes.resize(file_->read_at(0, bytes));
  if (bytes.empty()) refuse(path_, "the file is empty");
  seal_ = naming(path_, [&] { return decode_seal(bytes); });
  check_identity(path_, seal_, expected);
  check_bounds(path_, seal_, file_->length());

  const auto layout_bytes = read_region(seal_.layout, "layout");
  layout_ = naming(path_, [&] { return index::decode_layout(layout_bytes); });
  if (layout_.kind != seal_.kind) refuse(path_, "seal and layout disagree about what it holds");
  placement_ = naming(path_, [&] {
    return place(layout_, {seal_.metadata.extent.length, seal_.layout.extent.length,
                           seal_.fingerprints.extent.length, seal_.manifest.extent.length});
  });
  if (placement_.metadata != seal_.metadata.extent || placement_.layout != seal_.layout.extent ||
      placement_.fingerprints != seal_.fingerprints.extent ||
      placement_.manifest != seal_.manifest.extent || placement_.slices != seal_.slices ||
      placement_.file_length != seal_.file_length || placement_.hdf5_end != seal_.hdf5_end) {
    refuse(path_, "seal and layout disagree about where things lie");
  }
  const auto fingerprints = read_region(seal_.fingerprints, "fingerprints");
  fingerprints_ =
      naming(path_, [&] { return index::decode_fingerprints(fingerprints, layout_.slices); });
  const auto manifest = read_region(seal_.manifest, "manifest");
  manifest_ = naming(path_, [&] { return decode_manifest(manifest); });
  if (manifest_.id != seal_.id) refuse(path_, "seal and manifest disagree about the snapshot's id");
}

std::vector<std::byte> FileReader::read_region(const Region& region, const char* name) const {
  std::vector<std::byte> bytes(region.extent.length);
  read(region.extent.offset, bytes);
  if (digest_of(bytes) != region.digest)
    refuse(path_, std::string("the ") + name + " record is damaged");
  return bytes;
}

void FileReader::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (file_->read_at(offset, bytes) != bytes.size()) {
    refuse(path_, "ends before byte " + std::to_string(offset + bytes.size()));
  }
}

void FileReader::read_slice(std::size_t number, std::span<std::byte> bytes, bool verify) const {
  const auto& extent = placement_.slice_extents.at(number);
  ensure(bytes.size() == extent.length, "a slice is read into as many bytes as it has");
  if (!bytes.empty()) read(extent.offset, bytes);
  if (verify && digest_of(bytes) != fingerprints_[number].digest) {
    refuse(path_, describe_slice(layout_, number) +
                      " is damaged (its digest differs); `grad-inspect verify` lists all damage, "
                      "latest_good() finds the newest whole snapshot");
  }
}

}  // namespace gradstore::archive
