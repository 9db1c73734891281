// How alike two images are, by sums over windows: differentiable, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace sluice {

// x [N, C, ...] weighted by `kernel` (an odd number of weights) along each spatial axis. `same`: of
// x's extents, zeros outside; else only where the whole window lies inside.
at::Tensor filtered(const at::Tensor& x, const std::vector<double>& kernel, bool same = true);
at::Tensor filtered(const at::Tensor& x, const std::vector<std::vector<double>>& by_axis,
                    bool same);

// What MONAI's MultiScaleLoss smooths with: a Gaussian's values at voxels' centres, or Cauchy's.
std::vector<double> scale_kernel(double sigma, const std::string& kind);

// "rectangular", "triangular" or "gaussian" weights of `size` voxels, as MONAI's LNCC has them.
std::vector<double> window_kernel(std::int64_t size, const std::string& kind);

struct SsimParams {
  double data_range = 1, k1 = 0.01, k2 = 0.03;
  std::string kernel_type = "gaussian";
  std::vector<std::int64_t> win_size{11};  // by axis; one: for all
  std::vector<double> kernel_sigma{1.5};

  // f(name, member, what it says) of each.
  template <class F>
  static void each(const F& f) {
    f("data_range", &SsimParams::data_range, "The range of values: 255 for 8 bits.");
    f("kernel_type", &SsimParams::kernel_type, "The window's weights: gaussian, or uniform.");
    f("win_size", &SsimParams::win_size, "Extent of the window, voxels; by axis, or one for all.");
    f("kernel_sigma", &SsimParams::kernel_sigma,
      "The Gaussian's standard deviation, voxels; by axis, or one for all.");
    f("k1", &SsimParams::k1, "Steadies the factor of brightness.");
    f("k2", &SsimParams::k2, "Steadies the factor of contrast.");
  }
};

// Structural similarity (Wang et al. 2004) of images [N, C, ...] by voxel, and its factor of
// contrast and structure. Throws where the window does not lie inside of the images.
struct Ssim {
  at::Tensor value, contrast;
};
Ssim ssim(const at::Tensor& a, const at::Tensor& b, const SsimParams& p);

}  // namespace sluice
