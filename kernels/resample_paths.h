// What the two ways of resampling (resample.cpp, resample_separable.cpp) share: the source and
// output as raw memory, checked once, and a loop over the element sizes that `nearest` copies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/resample.h"

namespace sluice {

// Strides are in elements; both volumes are contiguous.
struct Volumes {
  const std::byte* source;
  std::byte* out;
  std::int64_t channels, source_voxels, out_voxels;
  Shape3 source_shape, shape;
  std::array<SampledAxis, 3> axis;
  bool parallel;
};

// Keeps the tensors behind the pointers alive. Linear sources become float32.
struct Resampling {
  at::Tensor source, out;
  Volumes volumes;
  Resampling(const at::Tensor& volume, const Shape3& shape, const Sampling& how);
};

// Only scales and shifts: over the whole output, no axis moves another by a ten-millionth voxel.
bool axis_aligned(const Affine& to_source, const Shape3& shape);
at::Tensor resample_separable(const at::Tensor& volume, const Affine& to_source,
                              const Shape3& shape, const Sampling& how);

// Calls fn with an unsigned integer of the element's size.
template <class Fn>
void for_word(std::size_t size, Fn&& fn) {
  if (size == 1) return fn(std::uint8_t{});
  if (size == 2) return fn(std::uint16_t{});
  if (size == 4) return fn(std::uint32_t{});
  fn(std::uint64_t{});
}

}  // namespace sluice
