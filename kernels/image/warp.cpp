#include "kernels/image/warp.h"

#include <ATen/Functions.h>

#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/image/grid_sampling.h"

namespace sluice {
namespace {

using kernels::Outside;
using kernels::WarpVoxel;

// One member's images and field in memory.
template <class T>
struct Member {
  std::int64_t shape[3] = {1, 1, 1};  // absent axes first
  std::int64_t channels = 1, points = 1;
  Outside outside = Outside::zeros;
  const T *image = nullptr, *ddf = nullptr;

  // f(point, where it is sampled) for the output's voxels [begin, end).
  template <int D, class F>
  void each(std::int64_t begin, std::int64_t end, F&& f) const {
    rows<D>(begin, end, 0, shape[3 - D], std::forward<F>(f));
  }
  // Of all output's voxels those that are sampled in rows [low, high) of the image's first axis;
  // neighbours in other rows weigh nothing.
  template <int D, class F>
  void each_in(std::int64_t low, std::int64_t high, F&& f) const {
    rows<D>(0, points, low, high, std::forward<F>(f));
  }

 private:
  template <int D, class F>
  void rows(std::int64_t begin, std::int64_t end, std::int64_t low, std::int64_t high,
            F&& f) const {
    constexpr int first = 3 - D;
    const std::int64_t stride[3] = {shape[1] * shape[2], shape[2], 1};
    const bool all = low == 0 && high == shape[first];
    WarpVoxel<T, D> at;
    std::int64_t index[3] = {begin / stride[0], begin / stride[1] % shape[1], begin % shape[2]};
    for (std::int64_t p = begin; p < end;) {
      const std::int64_t stop = std::min(end, p + shape[2] - index[2]);
      for (; p < stop; ++p, ++index[2]) {
        const T* by = ddf + p;
        const auto set = [&](int a) {
          at.axis[a].set(static_cast<T>(index[a]) + by[(a - first) * points], shape[a], stride[a],
                         outside);
        };
        set(first);
        if (!all && !cut(at.axis[first], low * stride[first], high * stride[first])) continue;
        if constexpr (D > 1) set(first + 1);
        if constexpr (D > 2) set(first + 2);
        f(p, at);
      }
      index[2] = 0;
      if (++index[1] == shape[1]) index[1] = 0, ++index[0];
    }
  }
  // False where both neighbours lie outside of [low, high).
  static bool cut(kernels::WarpAxis<T>& axis, std::int64_t low, std::int64_t high) {
    const bool in[2] = {axis.cell[0] >= low && axis.cell[0] < high,
                        axis.cell[1] >= low && axis.cell[1] < high};
    for (int side = 0; side < 2; ++side)
      if (!in[side]) axis.cell[side] = axis.cell[1 - side], axis.weight[side] = 0;
    return in[0] || in[1];
  }
};

template <class F>
void with_axes(std::int64_t axes, F&& f) {
  if (axes == 3) return f(std::integral_constant<int, 3>());
  if (axes == 2) return f(std::integral_constant<int, 2>());
  f(std::integral_constant<int, 1>());
}

// f(a member of `image` and `ddf`, its number), in turn.
template <class T, class F>
void each_member(const at::Tensor& image, const at::Tensor& ddf, Outside outside, F&& f) {
  Member<T> m;
  m.outside = outside;
  m.channels = image.size(1);
  for (std::int64_t a = 2; a < ddf.dim(); ++a)
    m.points *= m.shape[a - 2 + 5 - ddf.dim()] = ddf.size(a);
  for (std::int64_t n = 0; n < ddf.size(0); ++n) {
    m.image = image.const_data_ptr<T>() + n * m.channels * m.points;
    m.ddf = ddf.const_data_ptr<T>() + n * ddf.size(1) * m.points;
    f(m, n);
  }
}

template <class T>
at::Tensor moved(const at::Tensor& image, const at::Tensor& ddf, Outside outside) {
  at::Tensor out = at::empty_like(image);
  with_axes(ddf.size(1), [&](auto axes) {
    constexpr int D = decltype(axes)::value;
    each_member<T>(image, ddf, outside, [&](const Member<T>& m, std::int64_t n) {
      T* to = out.mutable_data_ptr<T>() + n * m.channels * m.points;
      team_for(m.points, [&](std::int64_t begin, std::int64_t end) {
        m.template each<D>(begin, end, [&](std::int64_t p, const WarpVoxel<T, D>& at) {
          for (std::int64_t c = 0; c < m.channels; ++c)
            to[c * m.points + p] = at.value(m.image + c * m.points);
        });
      });
    });
  });
  return out;
}

// Of the image: each thread has rows of it, and goes over all points.
template <class T>
at::Tensor image_gradient(const at::Tensor& image, const at::Tensor& ddf, const at::Tensor& grad,
                          Outside outside) {
  at::Tensor out = at::zeros_like(image);
  with_axes(ddf.size(1), [&](auto axes) {
    constexpr int D = decltype(axes)::value;
    each_member<T>(image, ddf, outside, [&](const Member<T>& m, std::int64_t n) {
      T* to = out.mutable_data_ptr<T>() + n * m.channels * m.points;
      const T* from = grad.const_data_ptr<T>() + n * m.channels * m.points;
      team_for(m.shape[3 - D], [&](std::int64_t low, std::int64_t high) {
        m.template each_in<D>(low, high, [&](std::int64_t p, const WarpVoxel<T, D>& at) {
          for (std::int64_t c = 0; c < m.channels; ++c)
            at.add(to + c * m.points, from[c * m.points + p]);
        });
      });
    });
  });
  return out;
}

template <class T>
at::Tensor field_gradient(const at::Tensor& image, const at::Tensor& ddf, const at::Tensor& grad,
                          Outside outside) {
  at::Tensor out = at::empty_like(ddf);
  with_axes(ddf.size(1), [&](auto axes) {
    constexpr int D = decltype(axes)::value;
    each_member<T>(image, ddf, outside, [&](const Member<T>& m, std::int64_t n) {
      T* to = out.mutable_data_ptr<T>() + n * D * m.points;
      const T* from = grad.const_data_ptr<T>() + n * m.channels * m.points;
      team_for(m.points, [&](std::int64_t begin, std::int64_t end) {
        m.template each<D>(begin, end, [&](std::int64_t p, const WarpVoxel<T, D>& at) {
          T sum[3] = {0, 0, 0};
          for (std::int64_t c = 0; c < m.channels; ++c)
            at.slopes(m.image + c * m.points, from[c * m.points + p], sum);
          for (int a = 0; a < D; ++a) to[a * m.points + p] = sum[3 - D + a];
        });
      });
    });
  });
  return out;
}

struct SavedWarp {
  at::Tensor image, ddf;
  Outside outside;
  bool to_image, to_field;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::NoGradGuard no_grad;
    const at::Tensor grad = grads[0].contiguous();
    const bool wide = ddf.scalar_type() == at::kDouble;
    std::vector<at::Tensor> out(2);
    if (to_image)
      out[0] = (wide ? image_gradient<double> : image_gradient<float>)(image, ddf, grad, outside);
    if (to_field)
      out[1] = (wide ? field_gradient<double> : field_gradient<float>)(image, ddf, grad, outside);
    return out;
  }
};

// float64 where the field is, else float32.
at::ScalarType wide_type(const at::Tensor& ddf) {
  return ddf.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Where a type has whole numbers alone, the nearest one.
at::Tensor as_type(const at::Tensor& x, at::ScalarType type) {
  return (c10::isIntegralType(type, /*includeBool=*/true) ? x.round() : x).to(type);
}

}  // namespace

at::Tensor torch_warp(const at::Tensor& image, const at::Tensor& ddf, bool nearest,
                      Outside outside) {
  const std::int64_t axes = ddf.dim() - 2;
  const at::Tensor field = ddf.to(wide_type(ddf));
  std::vector<at::Tensor> places;  // from -1 to 1, the last axis first
  for (std::int64_t a = axes - 1; a >= 0; --a) {
    const std::int64_t n = ddf.size(a + 2);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(axes), 1);
    shape[static_cast<std::size_t>(a)] = n;
    const at::Tensor at = field.select(1, a) + at::arange(n, field.options()).view(shape);
    places.push_back(at * 2 / static_cast<double>(std::max<std::int64_t>(n - 1, 1)) - 1);
  }
  return as_type(
      at::grid_sampler(image.to(field.scalar_type()), at::stack(places, -1), nearest ? 1 : 0,
                       outside == Outside::border ? 1 : 0, /*align_corners=*/true),
      image.scalar_type());
}

at::Tensor warp(const at::Tensor& image, const at::Tensor& ddf, Outside outside) {
  if (!image.device().is_cpu()) return torch_warp(image, ddf, false, outside);
  const auto type = wide_type(ddf);
  const at::Tensor x = image.to(type).contiguous(), field = ddf.to(type).contiguous();
  at::Tensor out;
  {
    const at::NoGradGuard no_grad;
    out = (type == at::kDouble ? moved<double> : moved<float>)(x, field, outside);
  }
  attach("WarpBackward", {out}, {x, field},
         SavedWarp{x.detach(), field.detach(), outside, x.requires_grad(), field.requires_grad()});
  return as_type(out, image.scalar_type());
}

at::Tensor warp_points(const at::Tensor& points, const at::Tensor& ddf) {
  const std::int64_t axes = ddf.size(1);
  kernels::GridRule rule;
  for (auto& bound : rule.bound) bound = kernels::Bound::replicate;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(axes) + 2, 1);
  shape[0] = points.size(0);
  shape[1] = points.size(1);
  shape.back() = axes;
  const at::Tensor at = points.to(ddf.scalar_type()),
                   by = grid_pull(ddf, at.detach().reshape(shape), rule);
  return at + by.reshape({points.size(0), axes, points.size(1)}).transpose(1, 2);
}

at::Tensor target_registration_error(const at::Tensor& points, const at::Tensor& truth,
                                     at::ArrayRef<double> spacing) {
  const at::Tensor there = truth.eq(-1).all(-1).logical_not();
  const at::Tensor apart = (points - truth) * at::tensor(spacing, points.options());
  const at::Tensor distances = at::linalg_vector_norm(apart, 2, at::IntArrayRef{-1});
  return distances.masked_fill(there.logical_not(), 0).sum(1) / there.sum(1).clamp_min(1);
}

at::Tensor dvf2ddf(const at::Tensor& velocities, std::int64_t steps, Outside outside) {
  at::Tensor u = velocities / static_cast<double>(std::int64_t{1} << steps);
  for (std::int64_t i = 0; i < steps; ++i) u = u + warp(u, u, outside);
  return u;
}

}  // namespace sluice
