#include "torch/dtype_map.h"

#include "core/ensure.h"

namespace gradstore {

std::optional<DType> dtype_of(at::ScalarType type) noexcept {
  switch (type) {
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kByte: return DType::uint8;
    default: return std::nullopt;  // LibTorch adds types with every release.
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float32: return at::kFloat;
    case DType::float64: return at::kDouble;
    case DType::int8: return at::kChar;
    case DType::int16: return at::kShort;
    case DType::int32: return at::kInt;
    case DType::int64: return at::kLong;
    case DType::uint8: return at::kByte;
  }
  ensure(false, "a dtype read from disk was checked");
  return at::kByte;
}

}  // namespace gradstore
