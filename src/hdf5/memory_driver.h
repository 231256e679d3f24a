// A file driver for libhdf5 that gives it a MemoryImage to write to.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "hdf5/h5_handle.h"
#include "hdf5/memory_image.h"

namespace gradstore::hdf5 {

/// One file to be. libhdf5 shares it for as long as it holds the file open, which after a failure
/// can be longer than its maker does.
struct MemoryFile {
  explicit MemoryFile(MemoryImage empty) : image(std::move(empty)) {}

  MemoryImage image;
  std::exception_ptr failure;  ///< The first exception that a call of libhdf5 met in here, if any.
};

H5Driver register_memory_driver();

/// Makes files that are created with `access` live in `file`, which must outlive `access`.
void use_memory_file(hid_t access, const H5Driver& driver, const std::shared_ptr<MemoryFile>& file);

}  // namespace gradstore::hdf5
