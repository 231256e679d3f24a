#include "torch/contiguous.h"

#include <c10/core/ScalarType.h>

namespace gradstore {

namespace {

// LibTorch has no copy kernel for some of the small dtypes that are only bits to us.
bool has_copy_kernel(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kBool:
    case at::kHalf:
    case at::kBFloat16: return true;
    default: return c10::elementSize(type) > 2;
  }
}

}  // namespace

at::Tensor contiguous_on_cpu(const at::Tensor& tensor) {
  if (tensor._is_zerotensor()) return contiguous_on_cpu(tensor.clone());
  const auto plain = has_copy_kernel(tensor.scalar_type())
                         ? tensor
                         : tensor.view(tensor.element_size() == 1 ? at::kByte : at::kShort);
  return plain.cpu().resolve_conj().resolve_neg().contiguous();
}

}  // namespace gradstore
