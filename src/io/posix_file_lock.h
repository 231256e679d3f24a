// A lock file, held with fcntl(F_SETLK). Note [Losing a fcntl lock] is in posix_file_lock.cpp.
#pragma once

#include <memory>

#include "io/file_system.h"

namespace gradstore::io {

/// FileSystem::lock() for the operating system's files.
std::unique_ptr<FileLock> lock_posix_file(const Path& path);

}  // namespace gradstore::io
