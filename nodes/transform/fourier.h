// MONAI's Fourier: an image's frequencies, the zero one in the middle.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice {

inline std::vector<std::int64_t> axes_behind_channels(const at::Tensor& t) {
  std::vector<std::int64_t> axes;
  for (std::int64_t d = 1; d < t.dim(); ++d) axes.push_back(d);
  return axes;
}

// image [C, ...] -> complex64 [C, ...] and back.
inline at::Tensor to_k_space(const at::Tensor& image) {
  const auto axes = axes_behind_channels(image);
  return at::fft_fftshift(at::fft_fftn(image.to(at::kFloat), {}, axes), axes);
}
inline at::Tensor from_k_space(const at::Tensor& k) {
  const auto axes = axes_behind_channels(k);
  return at::real(at::fft_ifftn(at::fft_ifftshift(k, axes), {}, axes)).contiguous();
}

// log |k| (of 1e-10 more), and its mean of each channel.
inline at::Tensor log_amplitude(const at::Tensor& k) { return (k.abs() + 1e-10).log(); }
inline at::Tensor channel_means(const at::Tensor& x) { return x.flatten(1).mean(1); }

// With that amplitude and k's phase.
inline at::Tensor with_amplitude(const at::Tensor& k, const at::Tensor& log_amplitude) {
  return at::polar(log_amplitude.exp(), k.angle());
}

// Keeps frequencies within (1 - alpha) of half the largest diagonal.
inline at::Tensor gibbs_noise(const at::Tensor& image, double alpha) {
  const auto axes = axes_behind_channels(image);
  const at::Tensor k = at::fft_fftn(image.to(at::kFloat), {}, axes);
  std::int64_t largest = 0;
  at::Tensor squares;
  for (const std::int64_t axis : axes) {
    const std::int64_t n = k.size(axis);
    largest = std::max(largest, n);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(k.dim()), 1);
    shape[static_cast<std::size_t>(axis)] = n;
    const double centre = static_cast<double>(n - 1) / 2;
    const at::Tensor one =
        (at::arange(n, k.options().dtype(at::kDouble)) - centre).square().view(shape);
    squares = squares.defined() ? squares + one : one;
  }
  const double radius = (1 - alpha) * static_cast<double>(largest) * std::sqrt(2.0) / 2;
  // The small map is shifted to where the frequencies are, not these to it.
  const at::Tensor kept = at::fft_ifftshift(squares.sqrt().le(radius), axes);
  at::view_as_real(k).mul_(kept.to(at::kFloat).unsqueeze(-1));
  return at::real(at::fft_ifftn(k, {}, axes)).contiguous();
}

}  // namespace sluice
