#include "archive/verify.h"

#include <algorithm>
#include <span>

namespace gradstore::archive {

namespace {

constexpr std::size_t kPieceBytes = 1u << 20;

class FileVerifier {
 public:
  explicit FileVerifier(const FileReader& file) : file_(file), piece_(kPieceBytes) {}

  Verification run() {
    const auto& seal = file_.seal();
    // The records were checked when the file was opened.
    for (const auto* region : {&seal.layout, &seal.fingerprints, &seal.manifest}) {
      checked_.push_back(region->extent);
    }
    checked_.push_back({0, kSealBytes});
    check_metadata(seal.metadata);
    for (std::size_t i = 0; i < file_.layout().slices.size(); ++i) check_slice(i);
    check_gaps();
    result_.bytes_checked = seal.file_length;
    return std::move(result_);
  }

 private:
  Digest128 digest(const Extent& extent) {
    stream_.reset();
    for_each_piece(extent,
                   [this](std::uint64_t, std::span<const std::byte> bytes) { stream_.add(bytes); });
    return stream_.digest();
  }

  template <typename F>
  void for_each_piece(const Extent& extent, F f) {
    for (auto at = extent.offset; at < extent.end();) {
      const auto bytes =
          std::span(piece_).first(std::min<std::uint64_t>(kPieceBytes, extent.end() - at));
      file_.read(at, bytes);
      f(at, std::span<const std::byte>(bytes));
      at += bytes.size();
    }
  }

  void check_metadata(const Region& region) {
    checked_.push_back(region.extent);
    if (digest(region.extent) != region.digest) {
      add("metadata", {}, {}, region.extent.offset,
          "the HDF5 metadata are damaged: other programs may misread the file, gradstore does not "
          "use them");
    }
  }

  void check_slice(std::size_t number) {
    const auto& extent = file_.placement().slice_extents[number];
    const auto& slice = file_.layout().slices[number];
    if (extent.length > 0 && !slice.alias_of) checked_.push_back(extent);
    ++result_.slices_checked;
    if (digest(extent) == file_.fingerprints()[number].digest) return;
    add("slice", file_.layout().params[slice.param].name, slice.position, extent.offset,
        describe_slice(file_.layout(), number) + " is damaged");
  }

  void check_gaps() {
    std::ranges::sort(checked_, {}, &Extent::offset);
    std::uint64_t end = 0;
    checked_.push_back({file_.seal().file_length, 0});
    for (const auto& extent : checked_) {
      if (extent.offset > end) check_zero({end, extent.offset - end});
      end = extent.end();
    }
  }

  void check_zero(const Extent& gap) {
    bool zero = true;
    for_each_piece(gap, [&zero](std::uint64_t, std::span<const std::byte> bytes) {
      zero =
          zero && std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
    });
    if (!zero) add("padding", {}, {}, gap.offset, "bytes between the parts are not zero");
  }

  void add(const char* region, std::string param, std::optional<std::uint32_t> slice,
           std::uint64_t offset, std::string what) {
    result_.damage.push_back(
        {file_.path(), region, std::move(param), slice, offset, std::move(what)});
  }

  const FileReader& file_;
  std::vector<std::byte> piece_;
  DigestStream stream_;
  std::vector<Extent> checked_;
  Verification result_;
};

// The region that FileReader's message is about, for those who read the JSON.
std::string region_of(const std::string& message) {
  for (const auto* region : {"layout", "fingerprints", "manifest"}) {
    if (message.find(std::string("the ") + region + " record is damaged") != std::string::npos)
      return region;
  }
  return message.find("Seal: ") != std::string::npos ? "seal" : "file";
}

}  // namespace

Verification verify_file(io::FileSystem& files, const io::Path& path,
                         const FileIdentity& expected) {
  try {
    const FileReader reader(files, path, expected);
    return FileVerifier(reader).run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
    Verification result;
    std::string what = error.what();
    if (const auto prefix = path.string() + ": "; what.starts_with(prefix))
      what.erase(0, prefix.size());
    if (error.code() == ErrorCode::not_found) what = "the file is missing";
    result.damage.push_back({path, region_of(what), {}, {}, 0, what});
    return result;
  }
}

}  // namespace gradstore::archive
