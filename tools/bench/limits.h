// What the machine can do at best: no snapshot can be faster.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace gradstore::bench {

double seconds_since(std::int64_t start_ns);
std::int64_t now_ns();

/// Copies with two threads, into memory that was touched before. Returns seconds.
double copy_with_two_threads(std::span<const std::byte> from, std::span<std::byte> to);

enum class Reserve { nothing, truncate, allocate };

/// Writes `bytes` (a multiple of 8 MiB) to a new file with O_DIRECT in blocks of 8 MiB from 4
/// threads, then fsync. Returns seconds.
double write_direct(const std::filesystem::path& path, std::span<const std::byte> bytes,
                    Reserve reserve);

/// Reads the whole file with O_DIRECT in blocks of 8 MiB from 4 threads. Returns seconds.
double read_direct(const std::filesystem::path& path, std::span<std::byte> into);

}  // namespace gradstore::bench
