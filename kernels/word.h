// Moving voxels about does not depend on what they are, only on how many bytes each takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/error.h"

namespace sluice {

// Calls fn with an unsigned integer of the element's size.
template <class Fn>
void for_word(std::size_t size, Fn&& fn) {
  if (size == 1) return fn(std::uint8_t{});
  if (size == 2) return fn(std::uint16_t{});
  if (size == 4) return fn(std::uint32_t{});
  if (size == 8) return fn(std::uint64_t{});
  throw DataError("voxels of " + std::to_string(size) + " bytes are not supported");
}

}  // namespace sluice
