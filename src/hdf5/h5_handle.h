// libhdf5's ids and errors in C++: only sources of this layer include this header.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace gradstore::hdf5 {

/// Throws Error{internal}: `what`, and what libhdf5's error stack of this thread says about it.
[[noreturn]] void throw_h5_error(const std::string& what);

inline void check(herr_t status, const char* what) {
  if (status < 0) throw_h5_error(what);
}

/// Keeps libhdf5 from printing its errors while it lives; the setting is this thread's own.
class H5SilenceErrors {
 public:
  H5SilenceErrors() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~H5SilenceErrors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  H5SilenceErrors(const H5SilenceErrors&) = delete;
  H5SilenceErrors& operator=(const H5SilenceErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Owns one HDF5 id. A destructor cannot report, so code that must know calls close() first.
template <herr_t (*Close)(hid_t)>
class H5Handle {
 public:
  H5Handle(hid_t id, const char* what) : id_(id) {
    if (id_ < 0) throw_h5_error(what);
  }
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  H5Handle& operator=(H5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~H5Handle() {
    if (id_ >= 0) Close(id_);
  }
  hid_t get() const noexcept { return id_; }
  void close(const char* what) {  // for ids whose close writes data; no-op if already closed
    if (id_ >= 0 && Close(std::exchange(id_, H5I_INVALID_HID)) < 0) throw_h5_error(what);
  }

 private:
  hid_t id_;
};

using H5Attribute = H5Handle<H5Aclose>;
using H5Dataset = H5Handle<H5Dclose>;
using H5Driver = H5Handle<H5FDunregister>;
using H5File = H5Handle<H5Fclose>;
using H5Group = H5Handle<H5Gclose>;
using H5PropertyList = H5Handle<H5Pclose>;
using H5Space = H5Handle<H5Sclose>;
using H5Type = H5Handle<H5Tclose>;

}  // namespace gradstore::hdf5
