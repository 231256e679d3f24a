// A real disk of a few MiB: a tmpfs in a mount namespace of a process of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace gradstore::testing {

/// Runs `body` in a second process, with the folder of an empty disk of `bytes` bytes that nobody
/// else sees and that ends with it; what fails in there fails the test. Skips the test where the
/// kernel lets us have no such disk. Call it once a test.
void on_a_disk_of(std::uint64_t bytes,
                  const std::function<void(const std::filesystem::path& disk)>& body);

/// Inside: takes all of the disk's free space but `bytes`, in a file of this name.
void leave_free(const std::filesystem::path& disk, std::uint64_t bytes,
                const char* name = "others");

/// Inside: from now on the disk cannot be written.
void make_read_only(const std::filesystem::path& disk);

}  // namespace gradstore::testing
