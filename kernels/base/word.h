// Moving voxels about does not depend on what they are, only on how many bytes each takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.h"

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

// The other byte order, for every element of `width` bytes. The bytes are aligned for it.
inline void swap_bytes(std::span<std::uint8_t> bytes, std::size_t width) {
  const auto swap_all = [&](auto zero, auto swap) {
    auto* p = reinterpret_cast<decltype(zero)*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof(zero); ++i) p[i] = swap(p[i]);
  };
  if (width == 2) swap_all(std::uint16_t{}, [](auto v) { return __builtin_bswap16(v); });
  if (width == 4) swap_all(std::uint32_t{}, [](auto v) { return __builtin_bswap32(v); });
  if (width == 8) swap_all(std::uint64_t{}, [](auto v) { return __builtin_bswap64(v); });
}

}  // namespace sluice
