// The logical elements of a tensor, one behind the other.
#pragma once

#include <ATen/core/Tensor.h>

namespace gradstore {

/// A contiguous CPU tensor over the elements of the dense tensor `tensor`, in row-major order,
/// whatever its strides, device and lazy bits (conjugate, negative, zero): the tensor's own memory
/// where that is so already. The dtype may become an integer of the same size.
at::Tensor contiguous_on_cpu(const at::Tensor& tensor);

}  // namespace gradstore
