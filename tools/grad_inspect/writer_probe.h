// Is a process writing a rank's part of the store?
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gradstore::inspect {

struct Writer {
  std::int64_t pid = 0;  ///< 0: on another machine or in another container.
};

/// Who holds `lock`, the rank's lock file; nothing when nobody does, or there is no such file.
/// Takes no lock and makes no file. Closing a lock file would drop a lock of this very process: a
/// program that writes stores must not ask. Errors: Error{io}.
std::optional<Writer> find_writer(const std::filesystem::path& lock);

}  // namespace gradstore::inspect
