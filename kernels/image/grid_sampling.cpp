#include "kernels/image/grid_sampling.h"

#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

using kernels::GridCall;
using kernels::GridRule;
using kernels::GridWork;

template <class T>
void run(const GridCall& call) {
  kernels::with_grid(call, [&](auto derivatives, auto nodes) {
    constexpr int K = decltype(derivatives)::value, N = decltype(nodes)::value;
    for (std::int64_t b = 0; b < call.batch; ++b) {
      if (call.work == GridWork::add || call.work == GridWork::add_slope) {
        // Each thread has rows of the image and goes over all points.
        if constexpr (K < 2)
          team_for(call.shape[0], [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = 0; i < call.points; ++i)
              kernels::grid_add<T, K, N>(call, b, i, begin, end);
          });
      } else {
        team_for(call.points, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) kernels::grid_read<T, K, N>(call, b, i);
        });
      }
    }
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
