// Changes that vary smoothly over an image, by a coarse field that is stretched to its size
// (MONAI's SmoothField and the transforms of it).
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/image/resample.h"
#include "kernels/image/resizing.h"

namespace sluice {

// coarse [K, a, b, c] -> float32 [K, shape...], resized and then scaled so that its least and
// largest values are the coarse one's.
at::Tensor smooth_field(const at::Tensor& coarse, const Shape3& shape, Resizing mode,
                        bool align_corners);

// image [C, X, Y, Z]: ((x - low) / range)^field range + low, with field [1, X, Y, Z].
at::Tensor field_contrast(const at::Tensor& image, const at::Tensor& field);

// image [C, X, Y, Z] (Z = 1: a picture, `axes` 2) read at places that field [axes, X, Y, Z] moves,
// in halves of the image's extent; by torch's grid sampler, whose grid goes from -1 to 1. `mode`:
// nearest, bilinear, and of pictures bicubic.
at::Tensor field_deform(const at::Tensor& image, std::int64_t axes, const at::Tensor& field,
                        const std::string& mode, Padding padding, bool align_corners);

}  // namespace sluice
