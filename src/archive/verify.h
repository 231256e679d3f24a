// Checks every byte of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/file_reader.h"
#include "gradstore/error.h"

namespace gradstore::archive {

struct Damage {
  io::Path file;
  std::string region;  ///< "seal", "metadata", "layout", ..., "slice", "padding", "file".
  std::string param;   ///< True name; empty where no param can be named.
  std::optional<std::uint32_t> slice;  ///< Position in the param's list.
  std::uint64_t offset = 0;            ///< Where the damaged region begins.
  std::string what;                    ///< A sentence for people.
};

struct Verification {
  std::vector<Damage> damage;  ///< Empty: every byte is as it was written.
  std::uint64_t bytes_checked = 0;
  std::uint64_t slices_checked = 0;
};

/// Every byte of the file lies in the seal, a region or slice with a digest, or must be zero.
/// Damage is the answer, so it is returned; only Error{io} and Error{incompatible} are thrown.
/// Cost: one read of the file; a few MiB of memory besides its records.
Verification verify_file(io::FileSystem& files, const io::Path& path, const FileIdentity& expected);

}  // namespace gradstore::archive
