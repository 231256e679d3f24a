// Builds a file's HDF5 metadata in memory with libhdf5, which never sees a real file.
#pragma once

#include <memory>

#include "archive/skeleton.h"

namespace gradstore::hdf5 {

/// The objects in the file, all without attributes and times (names: link_name.h):
///
///   /layout, /fingerprints                1-D uint8: the records
///   /manifest                             scalar UTF-8 string as long as its slot, space-padded
///   /gradients/<group id>/<param>/<slice position>   when the layout holds gradients
///   /state/<tensor>                                  when it holds companion state
///
/// Each slice is a contiguous dataset of its own dtype and shape; groups without params and params
/// without slices are empty HDF5 groups. Slices and records without bytes have no storage.
///
/// build() is thread-safe: calls into libhdf5 are serialised by one lock.
/// Errors: Error{corrupt} the layout breaks its own rules, a state tensor has not exactly one
/// slice,
///         or the file would be too long; {invalid_argument} two groups of one id, or two params of
///         one group (or state tensors) whose names give the same link; {internal} libhdf5 refuses,
///         with its own words.
/// Cost:   one core, some 115 us a slice (libhdf5 creates everything twice); 220 bytes a slice are
/// the
///         result, up to three times that are held on the way.
std::unique_ptr<archive::SkeletonBuilder> make_skeleton_builder();

}  // namespace gradstore::hdf5
