#include "kernels/image/filters.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/autograd.h"
#include "kernels/image/bound.h"
#include "kernels/image/frame.h"
#include "kernels/image/separable.h"

namespace sluice {
namespace {

// Kernels along the axes of a float32 volume, zeros outside, that are not trained: one pass, whose
// gradient is the same with the kernels turned round.
at::Tensor in_one_pass(const at::Tensor& image, const std::vector<std::vector<float>>& kernels) {
  const at::NoGradGuard no_grad;
  const at::Tensor volume = with_three_axes(image.detach().flatten(0, 1)).contiguous();
  const std::size_t absent = 3 - kernels.size();
  Bands bands;
  for (std::size_t a = 0; a < 3; ++a)
    bands[a] = a < absent ? keep_axis(1) : filter_axis(volume.size(a + 1), kernels[a - absent]);
  return map_axes(volume, bands).view(image.sizes());
}

struct SavedPass {
  std::vector<std::vector<float>> kernels;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    auto turned = kernels;
    for (auto& k : turned) std::reverse(k.begin(), k.end());
    return {in_one_pass(grads[0].contiguous(), turned)};
  }
};

// The voxels that stand for those of a padded axis.
at::Tensor padded_voxels(std::int64_t n, std::int64_t by, const std::string& mode) {
  const auto bound = mode == "reflect"     ? kernels::Bound::dct1
                     : mode == "replicate" ? kernels::Bound::replicate
                                           : kernels::Bound::dft;
  std::vector<std::int64_t> voxels;
  for (std::int64_t i = -by; i < n + by; ++i)
    voxels.push_back(kernels::bound_node(bound, i, n).index);
  return at::tensor(voxels, at::kLong);
}

// Rows [N, 1, n + taps - 1] with a kernel [taps]: [N, 1, n].
at::Tensor along_rows(const at::Tensor& rows, const at::Tensor& kernel) {
  const at::NoGradGuard no_grad;
  return at::conv1d(rows, kernel.view({1, 1, -1}));
}

// The kernel's gradient is ours: a tap's sum is formed by one thread, so its bits are the same on
// any number of them, which LibTorch's are not.
struct SavedRows {
  at::Tensor rows, kernel;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::Tensor out = grads[0].contiguous(), in = rows.contiguous();
    if (!out.is_cpu()) {
      const auto [to_rows, to_kernel, to_bias] =
          at::convolution_backward(out, in, kernel.view({1, 1, -1}), std::nullopt, {1}, {0}, {1},
                                   false, {0}, 1, {true, true, false});
      return {to_rows, to_kernel.view({-1})};
    }
    at::Tensor taps = at::empty_like(kernel);
    if (kernel.scalar_type() == at::kFloat)
      sum_taps<float>(out, in, taps);
    else
      sum_taps<double>(out, in, taps);
    return {at::conv_transpose1d(out, kernel.view({1, 1, -1})), taps};
  }

 private:
  template <class T>
  static void sum_taps(const at::Tensor& out, const at::Tensor& in, at::Tensor& taps) {
    const std::int64_t n = out.size(2), wide = in.size(2);
    const T *g = out.const_data_ptr<T>(), *x = in.const_data_ptr<T>();
    T* to = taps.data_ptr<T>();
    at::parallel_for(0, taps.numel(), 1, [&](std::int64_t from, std::int64_t end) {
      for (std::int64_t tap = from; tap < end; ++tap) {
        double sum = 0;
        for (std::int64_t row = 0; row < out.size(0); ++row)
          for (std::int64_t i = 0; i < n; ++i)
            sum += static_cast<double>(g[row * n + i]) * x[row * wide + i + tap];
        to[tap] = static_cast<T>(sum);
      }
    });
  }
};

struct SavedSigma {
  at::Tensor slope;  // of each weight
  at::Tensor sigma;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    return {at::mul(grads[0], slope).sum().to(sigma.scalar_type()).view(sigma.sizes())};
  }
};

// A kernel of odd size on each axis by a voxel's squared distance from the centre.
template <class F>
at::Tensor centred(std::int64_t axes, std::int64_t size, const F& of) {
  at::Tensor square = at::zeros(std::vector<std::int64_t>(axes, size), at::kLong);
  for (std::int64_t a = 0; a < axes; ++a) {
    std::vector<std::int64_t> shape(axes, 1);
    shape[a] = size;
    square.add_(at::sub(at::arange(size, at::kLong), size / 2).square().view(shape));
  }
  return of(square).to(at::kDouble);
}

}  // namespace

at::Tensor apply_filter(const at::Tensor& image, const at::Tensor& kernel) {
  const std::int64_t axes = image.dim() - 2, rows = image.size(0) * image.size(1);
  at::Tensor k = kernel.to(image.device(), image.scalar_type());
  while (k.dim() < axes + 2) k = k.unsqueeze(0);
  std::vector<std::int64_t> shape{image.size(0), image.size(1)}, half;
  for (std::int64_t a = 2; a < axes + 2; ++a) {
    shape.push_back(k.size(a));
    half.push_back(k.size(a) / 2);
  }
  k = k.expand(shape).flatten(0, 1).unsqueeze(1);
  const at::Tensor x = image.flatten(0, 1).unsqueeze(0);
  const std::vector<std::int64_t> ones(axes, 1), none(axes, 0);
  return at::convolution(x, k, {}, ones, half, ones, false, none, rows).view(image.sizes());
}

at::Tensor filter_along(const at::Tensor& image, std::int64_t axis, const at::Tensor& kernel,
                        const std::string& mode) {
  const std::int64_t n = image.size(axis), half = kernel.numel() / 2;
  at::Tensor x = image;
  if (mode != "zeros") x = x.index_select(axis, padded_voxels(n, half, mode).to(x.device()));
  x = x.movedim(axis, -1);
  auto shape = x.sizes().vec();
  shape.back() = n;
  at::Tensor rows = x.reshape({-1, 1, x.size(-1)});
  if (mode == "zeros") rows = at::constant_pad_nd(rows, {half, half});
  const at::Tensor k = kernel.to(image.device(), image.scalar_type()).contiguous();
  const at::Tensor out = along_rows(rows, k);
  attach("FilterAlongBackward", {out}, {rows, k}, SavedRows{rows.detach(), k.detach()});
  return out.view(shape).movedim(-1, axis);
}

at::Tensor separable_filtering(const at::Tensor& image, const std::vector<at::Tensor>& kernels,
                               const std::string& mode) {
  const std::int64_t axes = image.dim() - 2;
  const auto kernel = [&](std::int64_t a) { return kernels[kernels.size() == 1 ? 0 : a]; };
  const bool trained = std::any_of(kernels.begin(), kernels.end(),
                                   [](const at::Tensor& k) { return k.requires_grad(); });
  if (mode == "zeros" && !trained && image.is_cpu() && image.scalar_type() == at::kFloat) {
    SavedPass saved;
    for (std::int64_t a = 0; a < axes; ++a) {
      const at::Tensor k = kernel(a).to(at::kFloat).contiguous();
      saved.kernels.emplace_back(k.const_data_ptr<float>(), k.const_data_ptr<float>() + k.numel());
    }
    const at::Tensor out = in_one_pass(image, saved.kernels);
    attach("SeparableFilteringBackward", {out}, {image}, std::move(saved));
    return out;
  }
  at::Tensor out = image;
  for (std::int64_t a = 0; a < axes; ++a) out = filter_along(out, a + 2, kernel(a), mode);
  return out;
}

at::Tensor gaussian_kernel(const at::Tensor& sigma, double truncated, const std::string& approx) {
  const double s = sigma.item<double>(), t = s * s;
  const auto tail = static_cast<std::int64_t>(std::max(s * truncated, 0.5) + 0.5);
  const auto density = [&](double u) {
    return std::exp(-u * u / (2 * t)) / (std::sqrt(2 * M_PI) * s);
  };
  const auto discrete = [&](std::int64_t x) {
    return std::exp(-t) * std::cyl_bessel_i(static_cast<double>(std::abs(x)), t);
  };
  std::vector<double> weights, slopes;
  for (std::int64_t i = -tail; i <= tail; ++i) {
    const auto x = static_cast<double>(i);
    if (approx == "erf") {
      const double scale = 1 / (std::sqrt(2.0) * s), after = x + 0.5, before = x - 0.5;
      weights.push_back(0.5 * (std::erf(after * scale) - std::erf(before * scale)));
      slopes.push_back((before * density(before) - after * density(after)) / s);
    } else if (approx == "sampled") {
      weights.push_back(std::exp(-x * x / (2 * t)) / (2.5066282 * s));
      slopes.push_back(weights.back() * (x * x / t - 1) / s);
    } else {
      weights.push_back(discrete(i));
      slopes.push_back(s * (discrete(i - 1) + discrete(i + 1) - 2 * discrete(i)));
    }
  }
  const at::Tensor out = at::tensor(weights, at::kDouble);
  attach("GaussianKernelBackward", {out}, {sigma},
         SavedSigma{at::tensor(slopes, at::kDouble), sigma.detach()});
  return out;
}

at::Tensor savitzky_golay_kernel(std::int64_t window_length, std::int64_t order) {
  const at::Tensor x = at::sub(at::arange(window_length, at::kDouble), window_length / 2);
  std::vector<at::Tensor> powers;
  for (std::int64_t k = 0; k <= order; ++k) powers.push_back(at::pow(x, k));
  return at::linalg_pinv(at::stack(powers, 1))[0];
}

at::Tensor hilbert_transform(const at::Tensor& image, std::int64_t axis, std::int64_t n) {
  at::Tensor gain = at::zeros({n}, image.options().requires_grad(false));
  gain.narrow(0, 0, 1).fill_(1);
  gain.narrow(0, 1, (n - 1) / 2).fill_(2);
  const at::Tensor spectrum = at::fft_fft(image, n, axis).movedim(axis, -1);
  return at::view_as_real(at::fft_ifft(at::mul(spectrum, gain), n, -1).movedim(-1, axis));
}

at::Tensor mean_kernel(std::int64_t axes, std::int64_t size) {
  return at::ones(std::vector<std::int64_t>(axes, size), at::kDouble);
}
at::Tensor laplace_kernel(std::int64_t axes, std::int64_t size) {
  const std::int64_t all = static_cast<std::int64_t>(std::pow(size, axes));
  return centred(axes, size, [&](const at::Tensor& square) {
    return at::where(at::eq(square, 0), at::Scalar(all - 1), at::Scalar(-1));
  });
}
at::Tensor elliptical_kernel(std::int64_t axes, std::int64_t size) {
  return centred(axes, size,
                 [&](const at::Tensor& square) { return at::le(square, (size / 2) * (size / 2)); });
}
at::Tensor sharpen_kernel(std::int64_t axes, std::int64_t size) {
  const at::Tensor ones = elliptical_kernel(axes, size);
  return centred(axes, size, [&](const at::Tensor& square) {
    return at::where(at::eq(square, 0), ones.sum(), at::neg(ones));
  });
}

at::Tensor sobel(const at::Tensor& image, std::int64_t size, const std::vector<std::int64_t>& axes,
                 bool normalize, const std::string& mode) {
  const auto row = [](std::vector<double> v) {
    return at::tensor(v, at::kDouble).view({1, 1, -1});
  };
  const at::Tensor wider = row({1, 2, 1}).div_(normalize ? 4 : 1);
  at::Tensor slope = row({-1, 0, 1}).div_(normalize ? 2 : 1), smooth = wider;
  for (std::int64_t n = 3; n < size; n += 2) {
    slope = at::conv1d(slope, wider, {}, 1, 2);
    smooth = at::conv1d(smooth, wider, {}, 1, 2);
  }
  std::vector<at::Tensor> slopes;
  for (const std::int64_t axis : axes) {
    std::vector<at::Tensor> kernels(image.dim() - 2, smooth.view({-1}));
    kernels[axis] = slope.view({-1});
    slopes.push_back(separable_filtering(image, kernels, mode));
  }
  return at::cat(slopes, 1);
}

}  // namespace sluice
