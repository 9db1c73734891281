// Pixels that are numbers of colours, and numbers of fewer bits than a byte has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace sluice {

// Number i of a row of numbers of 1, 2, 4 or 8 bits; the first of a byte stands in its highest.
inline std::uint8_t packed_number(const std::uint8_t* row, std::int64_t i, int bits) {
  const int in_byte = 8 / bits;
  return static_cast<std::uint8_t>(
      row[i / in_byte] >> (8 - bits - static_cast<int>(i % in_byte) * bits) & ((1 << bits) - 1));
}

// Numbers [..., 1] as their colours [..., C], of a palette [colours, C]. DataError where one is
// beyond it; `what` begins the message.
at::Tensor coloured(const at::Tensor& numbers, const at::Tensor& palette, const std::string& what);

}  // namespace sluice
