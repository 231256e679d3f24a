// Tensors around 2 GiB and 4 GiB, where lengths leave 31 and 32 bits. They are nearly all zeros: in
// memory pages that nobody wrote, on disk holes.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "support/faulty_file_system.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Leaves a hole where a block of zeros is written.
class HoleyFile : public io::File {
 public:
  explicit HoleyFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const bool zero =
        std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
    if (!zero) file_->write_at(offset, bytes);
  }
  void allocate(std::uint64_t length) override { file_->truncate(length); }
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    return file_->read_at(offset, bytes);
  }
  void truncate(std::uint64_t length) override { file_->truncate(length); }
  void sync() override { file_->sync(); }
  std::uint64_t length() const override { return file_->length(); }
  std::size_t alignment() const override { return file_->alignment(); }

 private:
  std::unique_ptr<io::File> file_;
};

class HoleyFileSystem : public testing::FaultyFileSystem {
 public:
  std::unique_ptr<io::File> open(const io::Path& path, io::OpenMode mode,
                                 io::Caching caching) override {
    auto file = FaultyFileSystem::open(path, mode, caching);
    if (path.extension() != ".tmp") return file;
    return std::make_unique<HoleyFile>(std::move(file));
  }
};

// Zeros that take no memory until they are written.
class ZeroPages {
 public:
  explicit ZeroPages(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    madvise(data_, bytes_, MADV_HUGEPAGE);  // Fewer page faults.
  }
  ~ZeroPages() { munmap(data_, bytes_); }
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  at::Tensor tensor() const {
    return at::from_blob(data_, {static_cast<std::int64_t>(bytes_)}, at::kByte);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

// Positions where something goes wrong if a length or an offset is cut to 31 or 32 bits.
std::vector<std::uint64_t> marked_positions(std::uint64_t bytes) {
  std::vector<std::uint64_t> positions{0, bytes - 1};
  for (const auto boundary : {2 * kGiB, 4 * kGiB}) {
    for (const auto position : {boundary - 1, boundary, boundary + 1}) {
      if (position < bytes) positions.push_back(position);
    }
  }
  std::ranges::sort(positions);
  positions.erase(std::ranges::unique(positions).begin(), positions.end());
  return positions;
}

void expect_round_trip(std::uint64_t bytes) {
  SCOPED_TRACE(bytes);
  testing::TempDir dir;
  const ZeroPages pages(bytes);
  const auto grad = pages.tensor();
  const auto positions = marked_positions(bytes);
  auto* data = grad.mutable_data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < positions.size(); ++i)
    data[positions[i]] = static_cast<std::uint8_t>(i + 1);
  std::uint64_t marked = 0;
  for (const auto position : positions) marked += data[position];

  GradientStore gradients;
  gradients.register_param(1, "large", 0, grad);
  gradients.append_gradients_by_param_id(grad, 0, 1);
  gradients.register_param(2, "behind it", 0, grad.slice(0, 0, 3));
  gradients.append_gradients_by_param_id(grad.slice(0, 0, 3).clone(), 0, 2);
  const auto store = SnapshotStore::open(
      dir / "store",
      {.staging_bytes = 64 << 20, .file_system = std::make_shared<HoleyFileSystem>()});
  const auto ticket = store->snapshot(gradients, {});
  ticket.wait();
  EXPECT_GT(store->latest()->file_bytes, bytes);

  const auto read = store->read(ticket.id(), "large");
  ASSERT_EQ(read.numel(), grad.numel());
  const auto* restored = read.const_data_ptr<std::uint8_t>();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) sum += restored[i];
  EXPECT_EQ(sum, marked);
  for (const auto position : positions) EXPECT_EQ(restored[position], data[position]) << position;
  EXPECT_EQ(store->read(ticket.id(), "behind it").numel(), 3);
}

TEST(LargeTensorTest, LengthsBeyond31And32BitsRoundTrip) {
  // Half a minute for all.
  if (std::getenv("GRADSTORE_TEST_LONG") == nullptr) return expect_round_trip(4 * kGiB + 1);
  for (const auto boundary : {2 * kGiB, 4 * kGiB}) {
    for (const auto bytes : {boundary - 1, boundary, boundary + 1}) expect_round_trip(bytes);
  }
}

}  // namespace
}  // namespace gradstore
