// Smoothing with a Gaussian, as MONAI's GaussianFilter: one axis after the other, zeros outside.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace sluice {

// How a Gaussian becomes weights: its integral over each voxel, its value at each centre, or
// Lindeberg's discrete Gaussian, which stays one when it is applied twice.
inline const std::vector<std::string> gaussian_names{"erf", "sampled", "scalespace"};

// Weights of voxels -n..n, cut at four standard deviations, not normalised.
std::vector<float> gaussian_weights(double sigma, const std::string& approx = "erf");

// volume [C, X, Y, Z] -> float32; one sigma in voxels for each of the first axes, the others stay
// as they are. Where `into` is defined the result is written there (into.h), which is not the
// volume itself.
at::Tensor gaussian(const at::Tensor& volume, const std::vector<double>& sigma,
                    const std::string& approx = "erf", bool parallel = false,
                    const at::Tensor& into = {});

// Smooths by sigma1, smooths that by sigma2, and adds alpha times what the second smoothing took
// away: b + alpha (b - g(b)).
at::Tensor sharpen(const at::Tensor& volume, const std::vector<double>& sigma1,
                   const std::vector<double>& sigma2, double alpha, const std::string& approx);

}  // namespace sluice
