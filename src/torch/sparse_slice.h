// Sparse COO tensors as the bytes of a slice (core/layout.h, SparseParts).
#pragma once

#include <ATen/core/Tensor.h>

#include "core/layout.h"

namespace gradstore {

/// How `tensor`, a sparse COO tensor, is stored: with room for its entries, rounded up.
SparseSpec sparse_spec_of(const at::Tensor& tensor);

/// The slice's bytes, in a CPU tensor of bytes: entries as they are, coalesced or not.
at::Tensor pack_sparse(const at::Tensor& tensor, const SliceSpec& slice);

/// The tensor that was packed into `bytes`, on the CPU. Errors: c10::Error when the indices point
/// outside its shape; Error{corrupt} when there are more entries than room.
at::Tensor unpack_sparse(const at::Tensor& bytes, const SliceSpec& slice);

}  // namespace gradstore
