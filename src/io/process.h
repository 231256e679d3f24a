// What the operating system says about this process and its machine.
#pragma once

#include <cstdint>

namespace gradstore::io {

/// To tell a forked child from the process that opened a store.
std::int64_t process_id() noexcept;

std::uint64_t physical_memory_bytes();

}  // namespace gradstore::io
