#include "kernels/net/pool_step.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/net/windows.h"

namespace sluice {

Step::Size PoolStep::output_size(const std::vector<Size>& in) const {
  require_windows_fit(in[0], kernel, padding);
  Size s = in[0];
  for (std::size_t d = 0; d < kernel.size(); ++d)
    s[d + 2] = (s[d + 2] + 2 * padding[d] - kernel[d]) / stride[d] + 1;
  return s;
}

std::int64_t PoolStep::saved_bytes(const Size& output) const {
  std::int64_t bytes = max ? 8 : 0;
  for (const std::int64_t n : output) bytes *= n;
  return bytes;
}

// On the CPU, LibTorch averages in three dimensions in float32 and float64 only.
static at::Tensor widened(const at::Tensor& t) {
  const bool is_half = t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf;
  return t.is_cpu() && t.dim() == 5 && is_half ? t.to(at::kFloat) : t;
}

at::Tensor PoolStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const bool flat = kernel.size() == 2;
  if (!max) {
    const at::Tensor y =
        flat ? at::avg_pool2d(x, kernel, stride) : at::avg_pool3d(widened(x), kernel, stride);
    return f.net->laid_out(y.to(x.scalar_type()));
  }
  auto [y, indices] = flat ? at::max_pool2d_with_indices(x, kernel, stride, padding)
                           : at::max_pool3d_with_indices(x, kernel, stride, padding);
  if (f.keep) f.saved[number] = {indices};
  return f.net->laid_out(y);
}

at::Tensor max_pool_backward(const at::Tensor& grad, const at::Tensor& indices,
                             at::IntArrayRef size, at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding) {
  const auto axes = static_cast<std::int64_t>(kernel.size());
  std::int64_t offsets = 1;
  for (const std::int64_t k : kernel) offsets *= k;
  at::Tensor sum = at::empty(size, grad.options(), grad.suggest_memory_format()).zero_();
  for (std::int64_t o = 0; o < offsets; ++o) {
    // The windows whose voxel at this offset is in the image, that voxel, and its index there.
    at::Tensor from = grad, maxima = indices, into = sum;
    at::Tensor voxel = at::zeros({}, indices.options());
    std::int64_t rest = o, plane = 1, windows = 1;
    for (std::int64_t a = axes - 1; a >= 0; --a) {
      const std::int64_t n = size[a + 2], d = a + 2, shift = rest % kernel[a] - padding[a];
      rest /= kernel[a];
      const std::int64_t first = shift < 0 ? (stride[a] - 1 - shift) / stride[a] : 0;
      const std::int64_t last =
          std::min(grad.size(d), n > shift ? (n - 1 - shift) / stride[a] + 1 : 0);
      windows = last - first;
      if (windows < 1) break;
      const std::int64_t begin = first * stride[a] + shift;
      from = from.narrow(d, first, windows);
      maxima = maxima.narrow(d, first, windows);
      into = into.slice(d, begin, begin + (windows - 1) * stride[a] + 1, stride[a]);
      std::vector<std::int64_t> shape(static_cast<std::size_t>(axes), 1);
      shape[static_cast<std::size_t>(a)] = windows;
      voxel =
          voxel +
          at::arange(windows, voxel.options()).mul_(stride[a]).add_(begin).mul_(plane).view(shape);
      plane *= n;
    }
    if (windows > 0) into.add_(from.masked_fill(maxima.ne(voxel), 0));
  }
  return sum;
}

void PoolStep::backward(Frame& f, const at::Tensor& grad) const {
  if (!f.wants[inputs[0]]) return;
  const at::Tensor& x = f.values[inputs[0]];
  if (max && grad.is_cuda() && kernel != stride && at::globalContext().deterministicCuDNN())
    return f.add_grad(inputs[0],
                      f.net->laid_out(max_pool_backward(grad, f.saved[number][0], x.sizes(), kernel,
                                                        stride, padding)));
  const bool flat = kernel.size() == 2;
  const Size dilation(kernel.size(), 1);
  at::Tensor dx;
  if (max) {
    const at::Tensor& indices = f.saved[number][0];
    dx = flat ? at::max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, dilation,
                                                     false, indices)
              : at::max_pool3d_with_indices_backward(grad, x, kernel, stride, padding, dilation,
                                                     false, indices);
  } else {
    dx = flat ? at::avg_pool2d_backward(grad, x, kernel, stride, padding, false, true, std::nullopt)
              : at::avg_pool3d_backward(widened(grad), widened(x), kernel, stride, padding, false,
                                        true, std::nullopt)
                    .to(grad.scalar_type());
  }
  f.add_grad(inputs[0], f.net->laid_out(dx));
}

at::Tensor GlobalAvgPoolStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  return x.flatten(2).mean(2);
}

void GlobalAvgPoolStep::backward(Frame& f, const at::Tensor& grad) const {
  if (!f.wants[inputs[0]]) return;
  const at::Tensor& x = f.values[inputs[0]];
  const double share = static_cast<double>(x.size(0) * x.size(1)) / static_cast<double>(x.numel());
  at::Tensor dx = at::mul(grad, share);
  while (dx.dim() < x.dim()) dx = dx.unsqueeze(-1);
  f.add_grad(inputs[0], f.net->laid_out(dx.expand_as(x)));
}

}  // namespace sluice
