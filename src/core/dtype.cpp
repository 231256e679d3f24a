#include "gradstore/dtype.h"

namespace gradstore {

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::int8: return "int8";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
  }
  return "invalid";
}

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::int8:
    case DType::uint8: return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16: return 2;
    case DType::float32:
    case DType::int32: return 4;
    case DType::float64:
    case DType::int64: return 8;
  }
  return 0;
}

std::optional<DType> dtype_from_code(std::uint8_t code) noexcept {
  const auto dtype = static_cast<DType>(code);
  if (size_of(dtype) == 0) return std::nullopt;
  return dtype;
}

}  // namespace gradstore
