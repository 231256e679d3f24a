#include "hdf5/memory_driver.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace gradstore::hdf5 {

namespace {

// What a file access property list carries to open(). libhdf5 copies it bytewise.
struct DriverInfo {
  const std::shared_ptr<MemoryFile>* file;
};

// libhdf5 knows the base and hands it back to us.
struct OpenFile : H5FD_t {
  explicit OpenFile(std::shared_ptr<MemoryFile> memory_file)
      : H5FD_t{}, file(std::move(memory_file)) {}
  std::shared_ptr<MemoryFile> file;
};

MemoryFile& file_of(H5FD_t* shared) { return *static_cast<OpenFile*>(shared)->file; }
const MemoryFile& file_of(const H5FD_t* shared) {
  return *static_cast<const OpenFile*>(shared)->file;
}

// Runs `body` and answers with its result. No exception may pass through C: the first is kept, and
// libhdf5 told of a failure.
template <class Result, class Body>
Result guarded(MemoryFile& file, Result failed, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    if (!file.failure) file.failure = std::current_exception();
    return failed;
  }
}

H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
  try {
    const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
    return info == nullptr ? nullptr : new OpenFile(*info->file);
  } catch (...) {
    return nullptr;  // Out of memory.
  }
}

herr_t close(H5FD_t* shared) {
  delete static_cast<OpenFile*>(shared);
  return 0;
}

// No features: no aggregation of small pieces, no write accumulator, no sieve buffer.
herr_t query(const H5FD_t*, unsigned long* features) {
  if (features != nullptr) *features = 0;
  return 0;
}

haddr_t allocate(H5FD_t* shared, H5FD_mem_t type, hid_t, hsize_t size) {
  auto& file = file_of(shared);
  return guarded(file, HADDR_UNDEF, [&]() -> haddr_t {
    return type == H5FD_MEM_DRAW ? file.image.allocate_raw(size)
                                 : file.image.allocate_metadata(size);
  });
}

haddr_t get_end(const H5FD_t* shared, H5FD_mem_t) { return file_of(shared).image.end(); }

herr_t set_end(H5FD_t* shared, H5FD_mem_t, haddr_t end) {
  auto& file = file_of(shared);
  return guarded(file, herr_t{-1}, [&] {
    file.image.set_end(end);
    return herr_t{0};
  });
}

herr_t read(H5FD_t* shared, H5FD_mem_t, hid_t, haddr_t offset, std::size_t size, void* buffer) {
  auto& file = file_of(shared);
  return guarded(file, herr_t{-1}, [&] {
    file.image.read(offset, {static_cast<std::byte*>(buffer), size});
    return herr_t{0};
  });
}

herr_t write(H5FD_t* shared, H5FD_mem_t, hid_t, haddr_t offset, std::size_t size,
             const void* buffer) {
  auto& file = file_of(shared);
  return guarded(file, herr_t{-1}, [&] {
    file.image.write(offset, {static_cast<const std::byte*>(buffer), size});
    return herr_t{0};
  });
}

}  // namespace

H5Driver register_memory_driver() {
  H5FD_class_t driver{};
  driver.name = "gradstore_memory";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max());
  driver.fc_degree = H5F_CLOSE_SEMI;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open;
  driver.close = close;
  driver.query = query;
  driver.alloc = allocate;
  driver.get_eoa = get_end;
  driver.set_eoa = set_end;
  driver.get_eof = get_end;
  driver.read = read;
  driver.write = write;
  // Space of one kind is never reused for the other.
  std::ranges::fill(driver.fl_map, H5FD_MEM_SUPER);
  driver.fl_map[H5FD_MEM_DRAW] = H5FD_MEM_DRAW;
  return {H5FDregister(&driver), "Cannot register the file driver"};
}

void use_memory_file(hid_t access, const H5Driver& driver,
                     const std::shared_ptr<MemoryFile>& file) {
  const DriverInfo info{&file};
  check(H5Pset_driver(access, driver.get(), &info), "Cannot choose the file driver");
}

}  // namespace gradstore::hdf5
