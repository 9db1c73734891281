// Filling boxes of an image, or all around them, with a value or with noise.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/base/random.h"
#include "kernels/image/spatial.h"

namespace sluice {

// Between low and high, uniform; a voxel's draw is its number's, in row-major order of the image.
struct HoleFilling {
  float low = 0, high = 0;
  Random::Stream stream{};
};

// volume [C, X, Y, Z]; its type stays. `inside`: the boxes are filled, else what is around them.
// Where `into` is defined the result, a float32 volume's, is written there (into.h): the volume
// itself will do where the boxes are filled.
at::Tensor fill_holes_in(const at::Tensor& volume, const std::vector<Box>& boxes, bool inside,
                         const HoleFilling& filling, const at::Tensor& into = {});

}  // namespace sluice
