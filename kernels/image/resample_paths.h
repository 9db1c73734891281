// What the two ways of resampling (resample.cpp, resample_separable.cpp) share: the source and
// output as raw memory, checked once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/image/resample.h"

namespace sluice {

// Strides are in elements; both volumes are contiguous.
struct Volumes {
  const std::byte* source;
  std::byte* out;
  std::int64_t channels, source_voxels, out_voxels;
  Shape3 source_shape, shape;
  Shape3 start;         // of the part of the result that is made
  std::int64_t length;  // of the whole result's rows
  std::array<SampledAxis<double>, 3> axis;
  std::array<SampledAxis<float>, 3> near_axis;  // the same, for coordinates near an origin
  bool parallel;
  std::int64_t ahead = 0;  // from what a row reads to what a later one does
};

// Keeps the tensors that the pointers point into alive. Linear sources become float32.
struct Resampling {
  at::Tensor source, out;
  Volumes volumes;
  Resampling(const at::Tensor& volume, const Shape3& shape, const Sampling& how, const Box& part,
             const at::Tensor& into);
};

// Only scales and shifts: over the whole output, no axis moves another by a ten-millionth voxel.
bool axis_aligned(const Affine& to_source, const Shape3& shape);
at::Tensor resample_separable(const at::Tensor& volume, const Affine& to_source,
                              const Sampling& how, const Box& part, const at::Tensor& into);

}  // namespace sluice
