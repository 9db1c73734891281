// Filters of batches [B, C, ...] with one to three spatial axes, float32 or float64, on LibTorch's
// tape: MONAI's apply_filter, separable_filtering, GaussianFilter, SavitzkyGolayFilter and
// HilbertTransform, and the kernels of its MeanFilter, LaplaceFilter, EllipticalFilter and
// SharpenFilter.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace sluice {

// What lies outside, by PyTorch's names of padding.
inline const std::vector<std::string> padding_names{"zeros", "reflect", "replicate", "circular"};

// Cross-correlation, zeros outside. The kernel has D axes (the same for all), D + 1 (one a channel)
// or D + 2 (one a member and channel), and odd extents.
at::Tensor apply_filter(const at::Tensor& image, const at::Tensor& kernel);

// Along each spatial axis a kernel [n], n odd: one for all axes, or one each.
at::Tensor separable_filtering(const at::Tensor& image, const std::vector<at::Tensor>& kernels,
                               const std::string& mode = "zeros");

// Along one axis of the tensor.
at::Tensor filter_along(const at::Tensor& image, std::int64_t axis, const at::Tensor& kernel,
                        const std::string& mode);

// Weights [n] of a Gaussian cut at `truncated` standard deviations, with a gradient to sigma, which
// holds one number; approx is one of gaussian.h's names.
at::Tensor gaussian_kernel(const at::Tensor& sigma, double truncated, const std::string& approx);

// Weights of the polynomial of this order that fits a window best, at the window's centre.
at::Tensor savitzky_golay_kernel(std::int64_t window_length, std::int64_t order);

// The analytic signal along an axis of the tensor, by an FFT of n numbers: real and imaginary part
// as a last axis.
at::Tensor hilbert_transform(const at::Tensor& image, std::int64_t axis, std::int64_t n);

// Of odd size on each of `axes` axes: ones; -1 about size^axes - 1; ones within size / 2 of the
// centre; the same negated about their number.
at::Tensor mean_kernel(std::int64_t axes, std::int64_t size);
at::Tensor laplace_kernel(std::int64_t axes, std::int64_t size);
at::Tensor elliptical_kernel(std::int64_t axes, std::int64_t size);
at::Tensor sharpen_kernel(std::int64_t axes, std::int64_t size);

// The image's slopes by Sobel's kernels of this odd size along each of these spatial axes, as
// further channels: [B, axes C, ...]. Normalised: true derivatives.
at::Tensor sobel(const at::Tensor& image, std::int64_t size, const std::vector<std::int64_t>& axes,
                 bool normalize, const std::string& mode);

}  // namespace sluice
