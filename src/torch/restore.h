// From a file back to tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "archive/file_reader.h"
#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"

namespace gradstore {

/// See SnapshotStore::restore(). `verify`: check each slice's digest.
RestoreReport restore_gradients(const archive::FileReader& file, GradientStore& store,
                                const RestoreOptions& options, bool verify);

CompanionState read_companion_state(const archive::FileReader& file, bool verify);

/// Slice `number` of the file's layout as a contiguous CPU tensor of its own memory.
at::Tensor read_slice(const archive::FileReader& file, std::size_t number, bool verify);

}  // namespace gradstore
