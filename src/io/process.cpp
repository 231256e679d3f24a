#include "io/process.h"

#include <unistd.h>

namespace gradstore::io {

std::int64_t process_id() noexcept { return getpid(); }

std::uint64_t physical_memory_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace gradstore::io
