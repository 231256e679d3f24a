// Single elements of every dtype, as text and as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "gradstore/dtype.h"

namespace gradstore::inspect {

/// The shortest text that reads back, rounded to nearest, as the same element: 0.1 in float16 is
/// "0.1", not 0.0999755859375. NaN of any sign and payload: "nan". Complex: "1.5-2j". Bits that are
/// no number: "0x1f".
/// `bytes` holds exactly one element, little-endian.
std::string element_text(DType dtype, std::span<const std::byte> bytes);

/// The exact value; "nan", "inf", "-inf" as strings; complex as [real, imaginary].
nlohmann::ordered_json element_json(DType dtype, std::span<const std::byte> bytes);

}  // namespace gradstore::inspect
