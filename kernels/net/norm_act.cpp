#include "kernels/net/norm_act.h"

#include <ATen/ATen.h>

#include <vector>

#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/net/norm_act_call.h"
#include "kernels/net/norm_act_loops.h"

namespace sluice {
namespace {

// Channels-last memory as rows of C values, cut into blocks that never cross a group.
struct Blocks {
  std::int64_t channels, groups, rows, block_rows, per_group;
  int period;  // values until the channels repeat at a vector's start

  Blocks(const at::Tensor& x, std::int64_t groups_)
      : channels(x.size(1)), groups(groups_), rows(x.numel() / channels / groups) {
    period = channel_period(channels);
    const std::int64_t tile = period / channels;
    block_rows = std::max<std::int64_t>(1, 32768 / period) * tile;
    per_group = (rows + block_rows - 1) / block_rows;
  }
  std::int64_t count() const { return groups * per_group; }
  std::int64_t offset(std::int64_t block) const {
    return ((block / per_group) * rows + (block % per_group) * block_rows) * channels;
  }
  std::int64_t length(std::int64_t block) const {
    return std::min(block_rows, rows - (block % per_group) * block_rows) * channels;
  }
};

// Calls f with a null pointer of the tensor's element type as the loops know it.
template <class F>
void with_type(const at::Tensor& x, F&& f) {
  if (x.scalar_type() == at::kBFloat16)
    f(static_cast<Bf16Bits*>(nullptr));
  else
    f(static_cast<float*>(nullptr));
}
template <class T>
T* data(const at::Tensor& t, std::int64_t offset = 0) {
  return static_cast<T*>(t.data_ptr()) + offset;
}

// [G, C] -> values repeated over a period, for one group.
std::vector<float> repeat(const float* values, std::int64_t channels, int period) {
  std::vector<float> out(period);
  for (int i = 0; i < period; ++i) out[i] = values[i % channels];
  return out;
}

float slope_of(const NormAct& p) {
  return p.slope.defined() ? *p.slope.const_data_ptr<float>() : 1.f;
}

// Per group and channel: u = x * scale + shift.
struct Affine {
  std::vector<float> scale, shift;
  Affine(const NormAct& p, const Blocks& b) {
    const float* mean = p.mean.const_data_ptr<float>();
    const float* rstd = p.rstd.const_data_ptr<float>();
    const float* gamma = p.gamma.defined() ? p.gamma.const_data_ptr<float>() : nullptr;
    const float* beta = p.beta.defined() ? p.beta.const_data_ptr<float>() : nullptr;
    for (std::int64_t i = 0; i < b.groups * b.channels; ++i) {
      const std::int64_t c = i % b.channels;
      scale.push_back(rstd[i] * (gamma ? gamma[c] : 1.f));
      shift.push_back((beta ? beta[c] : 0.f) - mean[i] * scale.back());
    }
  }
};

NormStats fused_stats(const at::Tensor& x, bool per_sample) {
  const Blocks b(x, per_sample ? x.size(0) : 1);
  const std::int64_t C = b.channels;
  std::vector<float> partial(b.count() * 2 * C);
  std::vector<float> origin(b.groups * C);  // sums are of x - origin: no cancellation
  NormStats s{at::empty({b.groups, C}, at::kFloat), at::empty({b.groups, C}, at::kFloat)};
  with_type(x, [&]<class T>(T*) {
    for (std::int64_t i = 0; i < b.groups * C; ++i)
      origin[i] = load<float>(data<T>(x, (i / C) * b.rows * C + i % C));
    team_for(b.count(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const auto o = repeat(&origin[(k / b.per_group) * C], C, b.period);
        sum_block(data<T>(x, b.offset(k)), b.length(k), o.data(), b.period, static_cast<int>(C),
                  &partial[k * 2 * C]);
      }
    });
  });
  for (std::int64_t g = 0; g < b.groups; ++g)
    for (std::int64_t c = 0; c < C; ++c) {
      double sum = 0, square = 0;
      for (std::int64_t k = g * b.per_group; k < (g + 1) * b.per_group; ++k) {
        sum += partial[k * 2 * C + c];
        square += partial[k * 2 * C + C + c];
      }
      const double mean = sum / b.rows;
      s.mean.data_ptr<float>()[g * C + c] = static_cast<float>(mean + origin[g * C + c]);
      s.variance.data_ptr<float>()[g * C + c] =
          static_cast<float>(std::max(0.0, square / b.rows - mean * mean));
    }
  return s;
}

at::Tensor fused_channel_sums(const at::Tensor& x) {
  const Blocks b(x, 1);
  std::vector<float> partial(b.count() * 2 * b.channels);
  const std::vector<float> origin(b.period, 0.f);
  with_type(x, [&]<class T>(T*) {
    team_for(b.count(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k)
        sum_block(data<T>(x, b.offset(k)), b.length(k), origin.data(), b.period,
                  static_cast<int>(b.channels), &partial[k * 2 * b.channels]);
    });
  });
  at::Tensor out = at::empty({b.channels}, at::kFloat);
  for (std::int64_t c = 0; c < b.channels; ++c) {
    double sum = 0;
    for (std::int64_t k = 0; k < b.count(); ++k) sum += partial[k * 2 * b.channels + c];
    out.data_ptr<float>()[c] = static_cast<float>(sum);
  }
  return out;
}

at::Tensor fused_forward(const at::Tensor& x, const NormAct& p, const at::Tensor& residual) {
  const Blocks b(x, p.mean.size(0));
  const std::int64_t C = b.channels;
  const Affine a(p, b);
  const float slope = slope_of(p);
  at::Tensor y = at::empty_like(x);
  with_type(x, [&]<class T>(T*) {
    team_for(b.count(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t at = (k / b.per_group) * C, o = b.offset(k);
        const auto scale = repeat(&a.scale[at], C, b.period);
        const auto shift = repeat(&a.shift[at], C, b.period);
        forward_block(data<T>(x, o), residual.defined() ? data<T>(residual, o) : nullptr,
                      data<T>(y, o), b.length(k), scale.data(), shift.data(), slope, b.period);
      }
    });
  });
  return y;
}

// The sums over a group that dL/dx needs, per group and channel, and the slope's gradient.
struct BackwardSums {
  std::vector<double> d, dx;  // sum of d = dL/du, and of d * (x - mean)
  double slope = 0;
};

template <class T>
BackwardSums backward_sums(const at::Tensor& grad, const at::Tensor& x, const NormAct& p,
                           const Blocks& b, const Affine& a) {
  const std::int64_t C = b.channels, stride = 2 * C + 1;
  std::vector<float> partial(b.count() * stride);
  const float slope = slope_of(p);
  team_for(b.count(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t at = (k / b.per_group) * C, o = b.offset(k);
      const auto scale = repeat(&a.scale[at], C, b.period);
      const auto shift = repeat(&a.shift[at], C, b.period);
      const auto mean = repeat(p.mean.const_data_ptr<float>() + at, C, b.period);
      backward_sums_block(data<T>(grad, o), data<T>(x, o), b.length(k), scale.data(), shift.data(),
                          mean.data(), slope, b.period, static_cast<int>(C), &partial[k * stride]);
    }
  });
  BackwardSums s{std::vector<double>(b.groups * C), std::vector<double>(b.groups * C)};
  for (std::int64_t k = 0; k < b.count(); ++k) {
    const float* part = &partial[k * stride];
    for (std::int64_t c = 0; c < C; ++c) {
      s.d[(k / b.per_group) * C + c] += part[c];
      s.dx[(k / b.per_group) * C + c] += part[C + c];
    }
    s.slope += part[2 * C];
  }
  return s;
}

NormActGrad fused_backward(const at::Tensor& grad, const at::Tensor& x, const NormAct& p) {
  const Blocks b(x, p.mean.size(0));
  const std::int64_t C = b.channels;
  const Affine a(p, b);
  const float slope = slope_of(p);
  const float* rstd = p.rstd.const_data_ptr<float>();
  const float* mean = p.mean.const_data_ptr<float>();
  NormActGrad out;
  out.input = at::empty_like(x);
  with_type(x, [&]<class T>(T*) {
    const BackwardSums s = backward_sums<T>(grad, x, p, b, a);
    std::vector<kernels::NormActAnswer> parts(b.groups * C);
    std::vector<float> by_x(b.groups * C), by_1(b.groups * C);
    if (!p.frozen)
      for (std::int64_t i = 0; i < b.groups * C; ++i)
        parts[i] = kernels::NormActAnswer::part(s.d[i], s.dx[i], b.rows, a.scale[i], rstd[i]);
    for (std::int64_t i = 0; i < b.groups * C; ++i) {
      const auto answer =
          kernels::NormActAnswer::of(&parts[i - i % p.together], p.together, mean[i]);
      by_x[i] = static_cast<float>(answer.by_x);
      by_1[i] = static_cast<float>(answer.by_1);
    }
    team_for(b.count(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t at = (k / b.per_group) * C, o = b.offset(k);
        const auto scale = repeat(&a.scale[at], C, b.period);
        const auto shift = repeat(&a.shift[at], C, b.period);
        const auto x_part = repeat(&by_x[at], C, b.period), one = repeat(&by_1[at], C, b.period);
        backward_block(data<T>(grad, o), data<T>(x, o), data<T>(out.input, o), b.length(k),
                       scale.data(), shift.data(), x_part.data(), one.data(), slope, b.period);
      }
    });
    if (p.slope.defined()) out.slope = at::full({1}, s.slope, at::kFloat);
    if (!p.gamma.defined()) return;
    out.gamma = at::zeros({C}, at::kFloat);
    out.beta = at::zeros({C}, at::kFloat);
    for (std::int64_t i = 0; i < b.groups * C; ++i) {
      out.gamma.data_ptr<float>()[i % C] += static_cast<float>(s.dx[i] * rstd[i]);
      out.beta.data_ptr<float>()[i % C] += static_cast<float>(s.d[i]);
    }
  });
  return out;
}

// ---- the same in LibTorch's operations ----------------------------------------------------------

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
// [G, C] -> [G, C, 1, ...]
at::Tensor over(const at::Tensor& v, const at::Tensor& x) {
  std::vector<std::int64_t> shape(x.dim(), 1);
  shape[0] = v.dim() == 2 ? v.size(0) : 1;
  shape[1] = x.size(1);
  return v.reshape(shape);
}
std::vector<std::int64_t> all_but_channels(const at::Tensor& x, bool batch_too) {
  std::vector<std::int64_t> dims;
  if (batch_too) dims.push_back(0);
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

// A vector's channel is one number, and LibTorch's mean over no axis would be over all.
at::Tensor mean_over(const at::Tensor& t, const std::vector<std::int64_t>& dims) {
  return dims.empty() ? t : t.mean(dims);
}

// [G, C] -> [G, C], each the mean of its `together` channels.
at::Tensor common_mean(const at::Tensor& t, int together) {
  if (together == 1) return t;
  const at::Tensor groups = t.reshape({t.size(0), -1, together});
  return groups.mean(2, true).expand_as(groups).reshape(t.sizes()).contiguous();
}

NormStats composed_stats(const at::Tensor& x, bool per_sample) {
  const at::Tensor wide = x.to(wide_type(x));
  const auto dims = all_but_channels(x, !per_sample);
  if (dims.empty()) return {wide, at::zeros_like(wide)};
  const auto [variance, mean] = at::var_mean(wide, dims, c10::Scalar(0), false);
  const std::int64_t groups = per_sample ? x.size(0) : 1;
  return {mean.reshape({groups, x.size(1)}), variance.reshape({groups, x.size(1)})};
}

at::Tensor composed_u(const at::Tensor& x, const NormAct& p) {
  at::Tensor u = (x - over(p.mean, x)) * over(p.rstd, x);
  if (p.gamma.defined()) u = u * over(p.gamma, x) + over(p.beta, x);
  return u;
}

at::Tensor composed_forward(const at::Tensor& x, const NormAct& p, const at::Tensor& residual) {
  at::Tensor u = composed_u(x.to(wide_type(x)), p);
  if (p.slope.defined()) {
    const at::Tensor least =
        at::where(p.slope == 0, kernels::NormActValue::least(0), kernels::NormActValue::least(1));
    u = at::where(u > 0, u, at::maximum(u, least) * p.slope);
  }
  if (residual.defined()) u = u + residual;
  return u.to(x.scalar_type());
}

NormActGrad composed_backward(const at::Tensor& grad, const at::Tensor& x_, const NormAct& p) {
  const at::Tensor x = x_.to(wide_type(x_)), g = grad.to(x.scalar_type());
  const at::Tensor u = composed_u(x, p);
  const auto mean = [&](const at::Tensor& t) {
    return over(
        common_mean(mean_over(t, all_but_channels(x, p.mean.size(0) == 1)).reshape(p.mean.sizes()),
                    p.together),
        x);
  };
  NormActGrad out;
  at::Tensor d = g;
  if (p.slope.defined()) {
    d = at::where(u > 0, g, g * p.slope);
    out.slope = at::where(u > 0, 0, g * u).sum().reshape({1});
  }
  const at::Tensor xhat = (x - over(p.mean, x)) * over(p.rstd, x);
  if (p.gamma.defined()) {
    out.gamma = (d * xhat).sum(all_but_channels(x, true));
    out.beta = d.sum(all_but_channels(x, true));
    d = d * over(p.gamma, x);
  }
  if (!p.frozen) d = d - mean(d) - xhat * mean(d * xhat);
  out.input = (d * over(p.rstd, x)).to(x_.scalar_type());
  return out;
}

// ---- on a CUDA device ---------------------------------------------------------------------------

bool device_takes(const at::Tensor& x) {
  const auto t = x.scalar_type();
  return cuda_takes(x) && (t == at::kFloat || t == at::kHalf || t == at::kBFloat16) &&
         (x.dim() == 4 || x.dim() == 5) && x.is_contiguous(channels_last_of(x));
}

kernels::NormActCall device_call(const at::Tensor& x, std::int64_t groups) {
  kernels::NormActCall c;
  c.type = cuda_type(x);
  c.groups = groups;
  c.channels = x.size(1);
  c.rows = x.numel() / c.channels / groups;
  c.x = x.const_data_ptr();
  return c;
}
// With the parameters; `p` outlives the call.
kernels::NormActCall device_call(const at::Tensor& x, const NormAct& p) {
  kernels::NormActCall c = device_call(x, p.mean.size(0));
  const auto floats = [](const at::Tensor& t) {
    return t.defined() ? t.const_data_ptr<float>() : nullptr;
  };
  c.mean = floats(p.mean);
  c.rstd = floats(p.rstd);
  c.gamma = floats(p.gamma);
  c.beta = floats(p.beta);
  c.slope = floats(p.slope);
  c.frozen = p.frozen;
  c.together = p.together;
  return c;
}

NormStats device_stats(const at::Tensor& x, bool per_sample) {
  const CudaCall cuda(x);
  const auto c = device_call(x, per_sample ? x.size(0) : 1);
  const auto options = x.options().dtype(at::kFloat).memory_format(at::MemoryFormat::Contiguous);
  NormStats s{at::empty({c.groups, c.channels}, options),
              at::empty({c.groups, c.channels}, options)};
  const at::Tensor workspace = cuda.memory(cuda.table.norm_act_workspace(c));
  cuda.require(cuda.table.norm_statistics(c, workspace.data_ptr(), s.mean.data_ptr<float>(),
                                          s.variance.data_ptr<float>(), cuda.stream));
  return s;
}

at::Tensor device_forward(const at::Tensor& x, const NormAct& p, const at::Tensor& residual) {
  const CudaCall cuda(x);
  auto c = device_call(x, p);
  const at::Tensor added =
      residual.defined() ? residual.to(x.scalar_type()).contiguous(channels_last_of(x)) : residual;
  if (added.defined()) c.residual = added.const_data_ptr();
  at::Tensor y = at::empty_like(x);
  cuda.require(cuda.table.norm_act(c, y.data_ptr(), cuda.stream));
  return y;
}

NormActGrad device_backward(const at::Tensor& grad, const at::Tensor& x, const NormAct& p) {
  const CudaCall cuda(x);
  const auto c = device_call(x, p);
  const at::Tensor g = grad.to(x.scalar_type()).contiguous(channels_last_of(x));
  const auto options = x.options().dtype(at::kFloat).memory_format(at::MemoryFormat::Contiguous);
  NormActGrad out;
  out.input = at::empty_like(x);
  kernels::NormActGradients to;
  to.x = out.input.data_ptr();
  if (p.gamma.defined()) {
    out.gamma = at::empty({c.channels}, options);
    out.beta = at::empty({c.channels}, options);
    to.gamma = out.gamma.data_ptr<float>();
    to.beta = out.beta.data_ptr<float>();
  }
  if (p.slope.defined()) {
    out.slope = at::empty({1}, options);
    to.slope = out.slope.data_ptr<float>();
  }
  const at::Tensor workspace = cuda.memory(cuda.table.norm_act_workspace(c));
  cuda.require(
      cuda.table.norm_act_backward(c, workspace.data_ptr(), g.const_data_ptr(), to, cuda.stream));
  return out;
}

}  // namespace

bool norm_act_is_fused(const at::Tensor& x) {
  if (!x.device().is_cpu()) return false;
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kBFloat16) return false;
  return x.is_contiguous(channels_last_of(x));
}

NormStats norm_stats(const at::Tensor& x, bool per_sample) {
  if (device_takes(x)) return device_stats(x, per_sample);
  return norm_act_is_fused(x) ? fused_stats(x, per_sample) : composed_stats(x, per_sample);
}

NormStats in_common(const NormStats& every, int together) {
  const at::Tensor mean = common_mean(every.mean, together);
  return {mean, common_mean(every.variance + (every.mean - mean).square(), together)};
}

at::Tensor channel_sums(const at::Tensor& x) {
  if (norm_act_is_fused(x)) return fused_channel_sums(x);
  return x.sum(all_but_channels(x, true), false, wide_type(x));
}

at::Tensor norm_act(const at::Tensor& x, const NormAct& p, const at::Tensor& residual) {
  if (device_takes(x)) return device_forward(x, p, residual);
  if (!norm_act_is_fused(x)) return composed_forward(x, p, residual);
  return fused_forward(x, p,
                       residual.defined() ? residual.contiguous(channels_last_of(x)) : residual);
}

NormActGrad norm_act_backward(const at::Tensor& grad, const at::Tensor& x, const NormAct& p) {
  if (device_takes(x)) return device_backward(grad, x, p);
  if (!norm_act_is_fused(x)) return composed_backward(grad, x, p);
  return fused_backward(grad.contiguous(channels_last_of(x)), x, p);
}

}  // namespace sluice
