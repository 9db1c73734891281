// Logits on a network's grid become classes on a finer one: nnU-Net's export. Logits of the finer
// grid never exist: a row of them does, one class after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

// The nearest neighbours of each place on an axis: weight belongs to the upper one.
struct AxisPlaces {
  std::vector<std::int64_t> lower, upper;
  std::vector<float> weight;

  // `from` voxels stretched to `to`: place (i + 0.5) from / to - 0.5, no further than the outermost
  // voxels; the nearest voxel alone where it is not linear.
  static AxisPlaces stretched(std::int64_t from, std::int64_t to, bool linear = true);
  // The same at place scale * i + offset.
  static AxisPlaces along(std::int64_t from, std::int64_t to, double scale, double offset,
                          bool linear = true);
};

// logits [C, X, Y, Z] at `places` of each axis: the class of the largest, the first of equal ones,
// as [1, X', Y', Z'], uint8, int32 from 256 classes on. With `regions`, those of C regions that may
// overlap: where a logit is above 0, its region's label, the later one over the earlier. `half`:
// logits between voxels are rounded to float16.
at::Tensor resampled_classes(const at::Tensor& logits, const AxisPlaces (&places)[3],
                             const std::vector<std::int64_t>& regions = {}, bool half = false);

// The same logits as numbers from 0 to 1, float32 [C, X', Y', Z']: softmax over the channels, or
// sigmoid.
at::Tensor resampled_probabilities(const at::Tensor& logits, const AxisPlaces (&places)[3],
                                   bool sigmoid = false, bool half = false);

}  // namespace sluice
