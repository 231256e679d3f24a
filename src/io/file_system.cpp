#include "io/file_system.h"

#include "gradstore/error.h"

namespace gradstore::io {

std::string read_whole(FileSystem& files, const Path& path, std::size_t limit) {
  const auto file = files.open(path, OpenMode::read);
  const auto length = file->length();
  if (length > limit) {
    throw Error(ErrorCode::io, "Reading " + path.string() + ": it has " + std::to_string(length) +
                                   " bytes, more than the " + std::to_string(limit) + " allowed");
  }
  std::string contents(static_cast<std::size_t>(length), '\0');
  contents.resize(file->read_at(0, std::as_writable_bytes(std::span(contents))));
  return contents;
}

void replace_durably(FileSystem& files, const Path& path, std::span<const std::byte> contents) {
  Path temporary = path;
  temporary += ".tmp";  // One a crash left there is emptied.
  try {
    const auto file = files.open(temporary, OpenMode::create_or_empty);
    file->write_at(0, contents);
    file->sync();
    files.rename(temporary, path);
  } catch (...) {
    try {
      files.remove_file(temporary);
    } catch (const Error&) {
      // The first failure is the one to tell. What stays is no more than a crash would leave.
    }
    throw;
  }
  files.sync_directory(path.has_parent_path() ? path.parent_path() : Path("."));
}

}  // namespace gradstore::io
