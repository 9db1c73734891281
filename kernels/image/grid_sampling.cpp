#include "kernels/image/grid_sampling.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/grid_rows.h"

namespace sluice {
namespace {

using kernels::GridCall;
using kernels::GridRule;
using kernels::GridWork;

// One batch member's points on the host: 16 at once, those near the border one by one.
template <class T, int K, int N>
class Points {
 public:
  Points(const GridCall& call, std::int64_t member)
      : call_(call),
        member_(member),
        x_(static_cast<const T*>(call.grid) + member * call.points * call.axes) {
    if constexpr (together) fit_ = Rows::fits(call);
  }

  void read(std::int64_t begin, std::int64_t end) {
    const T* image = static_cast<const T*>(call_.image) + member_ * call_.channels * call_.voxels();
    for (std::int64_t i = begin; i < end;) {
      std::int64_t points[lanes];
      int n = 0;
      while (n < lanes && i < end) points[n++] = i++;
      each(points, n, [&](std::int64_t point, const Rows* rows, int l) {
        if constexpr (together)
          if (rows)
            return kernels::grid_give<T, K>(call_, member_, point, [&](std::int64_t c) {
              return rows->read(image + c * call_.voxels(), plane_, row_, l);
            });
        kernels::grid_read<T, K, N>(call_, member_, point);
      });
    }
  }

  // To rows [begin, end) of the image. A point is skipped where it is seen to lie elsewhere.
  void add(std::int64_t begin, std::int64_t end) {
    std::int64_t points[lanes];
    int n = 0;
    const auto flush = [&] {
      each(points, n, [&](std::int64_t point, const Rows* rows, int l) {
        if constexpr (together)
          if (rows)
            return kernels::grid_take<T, K>(call_, member_, point, [&](T* to, T value, const T* d) {
              rows->add(to, plane_, row_, l, value, d, begin, end);
            });
        kernels::grid_add<T, K, N>(call_, member_, point, begin, end);
      });
      n = 0;
    };
    constexpr std::int64_t block = 256;
    std::uint8_t here[block];
    for (std::int64_t first = 0; first < call_.points; first += block) {
      const std::int64_t count = std::min(block, call_.points - first);
      mark(first, count, begin, end, here);
      for (std::int64_t i = 0; i < count; ++i) {
        points[n] = first + i;
        n += here[i];
        if (n == lanes) flush();
      }
    }
    flush();
  }

 private:
  static constexpr bool together = N > 0 && K < 2 && std::is_same_v<T, float>;
  using Rows = kernels::GridRows<K, std::max(N, 1)>;
  static constexpr int lanes = kernels::grid_lanes;

  // do_it(point, rows, lane) for each of n points; no rows where it is computed alone.
  template <class F>
  void each(const std::int64_t* points, int n, F&& do_it) {
    if (n == 0) return;
    if constexpr (together)
      if (fit_) {
        for (int l = 0; l < lanes; ++l)
          for (int a = 0; a < 3; ++a) rows_.x[a][l] = x_[points[std::min(l, n - 1)] * 3 + a];
        rows_.set(call_);
        for (int l = 0; l < n; ++l) do_it(points[l], rows_.within[l] ? &rows_ : nullptr, l);
        return;
      }
    for (int l = 0; l < n; ++l) do_it(points[l], nullptr, l);
  }

  // 0 for points [first, first + count) whose nodes all lie in rows of the image outside of
  // [begin, end).
  void mark(std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end,
            std::uint8_t* here) const {
    if (!fit_ || (begin == 0 && end == call_.shape[0])) return std::fill_n(here, count, 1), void();
    const T last = static_cast<T>(call_.shape[0] - N), half = T(0.5) * static_cast<T>(N - 2),
            low = static_cast<T>(begin - N), high = static_cast<T>(end);
    const T* x = x_ + first * 3;
    for (std::int64_t i = 0; i < count; ++i) {
      const T at = std::floor(x[3 * i] - half);
      here[i] = !(at >= 0 && at <= last) || (at > low && at < high);
    }
  }

  const GridCall& call_;
  std::int64_t member_;
  const T* x_;
  std::int64_t plane_ = call_.shape[1] * call_.shape[2], row_ = call_.shape[2];
  bool fit_ = false;
  std::conditional_t<together, Rows, int> rows_;
};

template <class T>
void run(const GridCall& call) {
  kernels::with_grid<std::is_same_v<T, float>>(call, [&](auto derivatives, auto nodes) {
    using Of = Points<T, decltype(derivatives)::value, decltype(nodes)::value>;
    const bool adds = call.work == GridWork::add || call.work == GridWork::add_slope;
    for (std::int64_t b = 0; b < call.batch; ++b)
      // Each thread has points, or rows of the image and goes over all points.
      team_for(adds ? call.shape[0] : call.points, [&](std::int64_t begin, std::int64_t end) {
        Of points(call, b);
        if (!adds) return points.read(begin, end);
        if constexpr (decltype(derivatives)::value < 2) points.add(begin, end);
      });
  });
}

std::vector<std::int64_t> joined(std::initializer_list<std::int64_t> first, at::IntArrayRef rest,
                                 std::int64_t last = -1) {
  std::vector<std::int64_t> shape(first);
  shape.insert(shape.end(), rest.begin(), rest.end());
  if (last >= 0) shape.push_back(last);
  return shape;
}

at::IntArrayRef extents(const at::Tensor& grid) { return grid.sizes().slice(1, grid.dim() - 2); }

// One call; `image` is undefined where it is what comes out, of extents `shape`.
at::Tensor compute(GridWork work, const GridRule& rule, const at::Tensor& image,
                   const at::Tensor& grid, const at::Tensor& values, at::IntArrayRef shape) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = image.defined() ? image.contiguous() : image, g = grid.contiguous(),
                   v = values.defined() ? values.contiguous() : values;
  GridCall call;
  call.rule = rule;
  call.work = work;
  call.axes = static_cast<int>(g.size(-1));
  call.batch = g.size(0);
  call.channels = x.defined() ? x.size(1) : v.defined() ? v.size(1) : 1;
  call.points = c10::multiply_integers(extents(g));
  for (std::size_t a = 0; a < shape.size(); ++a) call.shape[a] = shape[a];
  const bool adds = work == GridWork::add || work == GridWork::add_slope;
  at::Tensor out;
  if (adds)
    out = at::zeros(joined({call.batch, call.channels}, shape), g.options());
  else if (work == GridWork::value || work == GridWork::slopes)
    out = at::empty(
        joined({call.batch, call.channels}, extents(g), work == GridWork::slopes ? call.axes : -1),
        g.options());
  else
    out = at::empty_like(g);
  if (x.defined()) call.image = x.const_data_ptr();
  call.grid = g.const_data_ptr();
  if (v.defined()) call.values = v.const_data_ptr();
  call.out = out.mutable_data_ptr();
  if (g.is_cuda()) {
    if (g.scalar_type() != at::kFloat)
      throw DataError("a resampling of float64 runs on the host alone");
    const CudaCall cuda(g);
    cuda.require(cuda.table.grid(call, cuda.stream));
  } else if (g.scalar_type() == at::kDouble)
    run<double>(call);
  else
    run<float>(call);
  return out;
}

// The gradients of an operation that reads the image (pull, grad).
struct SavedRead {
  GridRule rule;
  bool slopes;
  at::Tensor image, grid;
  bool to_image, to_grid;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::IntArrayRef shape = image.sizes().slice(2);
    std::vector<at::Tensor> out(2);
    if (to_image)
      out[0] =
          compute(slopes ? GridWork::add_slope : GridWork::add, rule, {}, grid, grads[0], shape);
    if (to_grid)
      out[1] =
          compute(slopes ? GridWork::turn : GridWork::move, rule, image, grid, grads[0], shape);
    return out;
  }
};

// The gradients of one that adds (push; count, whose values are ones).
struct SavedAdd {
  GridRule rule;
  at::Tensor values, grid;
  bool to_values, to_grid;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::IntArrayRef shape = grads[0].sizes().slice(2);
    std::vector<at::Tensor> out;
    if (values.defined())
      out.push_back(to_values ? compute(GridWork::value, rule, grads[0], grid, {}, shape)
                              : at::Tensor());
    out.push_back(to_grid ? compute(GridWork::move, rule, grads[0], grid, values, shape)
                          : at::Tensor());
    return out;
  }
};

at::Tensor read(bool slopes, const at::Tensor& image, const at::Tensor& grid,
                const GridRule& rule) {
  const at::Tensor out = compute(slopes ? GridWork::slopes : GridWork::value, rule, image, grid, {},
                                 image.sizes().slice(2));
  attach(slopes ? "GridGradBackward" : "GridPullBackward", {out}, {image, grid},
         SavedRead{rule, slopes, image.detach(), grid.detach(), image.requires_grad(),
                   grid.requires_grad()});
  return out;
}

}  // namespace

at::Tensor grid_pull(const at::Tensor& image, const at::Tensor& grid, const GridRule& rule) {
  return read(false, image, grid, rule);
}

at::Tensor grid_grad(const at::Tensor& image, const at::Tensor& grid, const GridRule& rule) {
  return read(true, image, grid, rule);
}

at::Tensor grid_push(const at::Tensor& image, const at::Tensor& grid, at::IntArrayRef shape,
                     const GridRule& rule) {
  const at::Tensor out = compute(GridWork::add, rule, {}, grid, image, shape);
  attach(
      "GridPushBackward", {out}, {image, grid},
      SavedAdd{rule, image.detach(), grid.detach(), image.requires_grad(), grid.requires_grad()});
  return out;
}

at::Tensor grid_count(const at::Tensor& grid, at::IntArrayRef shape, const GridRule& rule) {
  const at::Tensor out = compute(GridWork::add, rule, {}, grid, {}, shape);
  attach("GridCountBackward", {out}, {grid}, SavedAdd{rule, {}, grid.detach(), false, true});
  return out;
}

// Along each axis, pull at the voxels is a matrix; the coefficients are its inverse's.
at::Tensor spline_coefficients(const at::Tensor& image, const GridRule& rule) {
  at::Tensor out = image;
  for (std::int64_t a = 0; a < image.dim() - 2; ++a) {
    GridRule one = rule;
    one.order[0] = rule.order[a];
    one.bound[0] = rule.bound[a];
    one.extrapolate = true;
    const std::int64_t n = image.size(a + 2);
    const at::Tensor unit = at::eye(n, at::kDouble);
    const at::Tensor values =  // [1, n, n]: of a one in each voxel, what pull gives at the voxels
        compute(GridWork::value, one, unit.unsqueeze(0), at::arange(n, at::kDouble).view({1, n, 1}),
                {}, {n});
    const at::Tensor inverse = at::inverse(values[0]).to(image.device(), image.scalar_type());
    out = at::matmul(out.transpose(a + 2, -1), inverse).transpose(a + 2, -1);
  }
  return out;
}

}  // namespace sluice
