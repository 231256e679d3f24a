// From tensors to the blocks of a file: what the training thread waits for.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "archive/block_queue.h"
#include "archive/file_plan.h"
#include "gradstore/snapshot_store.h"
#include "io/block_pool.h"
#include "torch/gradient_store_contents.h"
#include "torch/shared_memory.h"

namespace gradstore {

/// What is to be captured: a layout and, slice by slice, the tensors that hold it.
struct CaptureSource {
  Layout layout;
  std::vector<at::Tensor> tensors;  ///< Of sparse slices: their bytes. Undefined: an alias.
  SlicePairs overlaps;
};

/// Errors: Error{invalid_argument} naming the param: no name registered, or a tensor that cannot be
/// stored (quantised, meta, without memory of its own, of another layout than strided and COO).
CaptureSource gather_gradients(const GradientStoreView& store);
CaptureSource gather_state(const CompanionState& state);

/// Copies all slices into blocks and pushes these, in order; finishes the queue. Where the pool
/// runs dry it opens the queue's gate and waits for the writer: the capture goes on in waves.
/// Strided and device tensors are first made contiguous on the CPU, synchronously, a few at a time.
void copy_into_blocks(const archive::FilePlan& plan, const std::vector<at::Tensor>& tensors,
                      io::BlockPool& pool, archive::BlockQueue& queue);

}  // namespace gradstore
