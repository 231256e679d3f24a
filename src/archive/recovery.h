// What open() does about whatever a crash has left behind.
#pragma once

#include "archive/store_directory.h"
#include "index/index.h"
#include "io/file_system.h"

namespace gradstore::archive {

/// Before the index is opened, because opening makes one.
/// Errors: Error{corrupt} when there are snapshot files but no index: nothing may be removed then.
void refuse_lost_index(const RankPaths& paths, io::FileSystem& files);

/// Brings files and index of one rank into agreement; see recovery.cpp for what is decided how.
/// Errors: Error{corrupt} when more files lack a row than a crash can explain.
void recover(const RankPaths& paths, const StoreInfo& store, std::uint32_t rank,
             io::FileSystem& files, index::Index& index);

}  // namespace gradstore::archive
