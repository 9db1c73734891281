// What depends on an image's histogram: percentiles, and bending it.
//
// Invariant: as in intensity.h; an image is never written to, and results are new float32 tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace sluice::kernels {

// The percentiles (0 to 100) of the whole image, or of each channel, interpolated linearly between
// the two nearest voxels. NaN where there is one. Result [part][percentile].
std::vector<std::vector<double>> percentiles(const at::Tensor& image,
                                             const std::vector<double>& percents,
                                             bool channel_wise);

// Piecewise linear: the image's range, cut into to.size() - 1 equal pieces, whose ends go to the
// shares `to` of the range. A flat image stays as it is.
at::Tensor shift_histogram(const at::Tensor& image, const std::vector<double>& to);

}  // namespace sluice::kernels
