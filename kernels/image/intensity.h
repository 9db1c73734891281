// Intensity transforms of images: reductions, voxel by voxel maps, noise.
//
// Invariant: an image is [C, ...] of any dtype and layout and is never written to; results are new
// contiguous float32 tensors of its shape, or are written `into` one: the image itself will do.
// Every function runs on the calling thread alone (the scheduler has other samples for the other
// cores) and gives the same bits whoever calls it. A list of functors or results has one entry for
// the whole image, or one a channel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "kernels/base/intensity_math.h"

namespace sluice::kernels {

struct Range {
  float low = 0, high = 0;
};
std::vector<Range> ranges(const at::Tensor& image, bool channel_wise);

struct Moments {
  double mean = 0, std = 0;  // std over n, not n - 1
  std::int64_t count = 0;
};
// With `nonzero` over the voxels that are not exactly 0. Sums are double and taken about one of
// the image's own values, so a large mean costs no digits.
std::vector<Moments> moments(const at::Tensor& image, bool nonzero, bool channel_wise);

// Defined for the functors of intensity_math.h.
template <class F>
at::Tensor map(const at::Tensor& image, const std::vector<F>& functors,
               const at::Tensor& into = {});

// image + mean + std * n, where n[i] is standard normal number i of the stream, in row-major order.
at::Tensor add_noise(const at::Tensor& image, float mean, float std, const Random::Stream& stream,
                     const at::Tensor& into = {});

}  // namespace sluice::kernels
