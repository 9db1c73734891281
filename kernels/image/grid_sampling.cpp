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

  // Writes to `at`, for points [begin, end), which of `parts` even ranges of the image's rows has
  // all of a point's nodes; `any` where that is not seen.
  void find_parts(std::int64_t begin, std::int64_t end, std::int64_t parts,
                  std::uint8_t* at) const {
    const std::int64_t rows = call_.shape[0];
    if (!fit_ || parts > any) return std::fill(at + begin, at + end, any), void();
    const T last = static_cast<T>(rows - N), half = T(0.5) * static_cast<T>(N - 2);
    constexpr std::int64_t block = 256;
    // The first node, the row after the last one, and how many of the ranges begin before these.
    T x[block], low[block], of_first[block], of_last[block];
    for (std::int64_t first = begin; first < end; first += block) {
      const std::int64_t n = std::min(block, end - first);
      for (std::int64_t i = 0; i < n; ++i) x[i] = x_[3 * (first + i)];
      for (std::int64_t i = 0; i < n; ++i) {
        low[i] = std::floor(x[i] - half);
        of_first[i] = of_last[i] = 0;
      }
      for (std::int64_t part = 1; part < parts; ++part) {
        const T from = static_cast<T>(rows * part / parts), until = from - static_cast<T>(N);
        for (std::int64_t i = 0; i < n; ++i) {
          of_first[i] += low[i] >= from ? T(1) : T(0);
          of_last[i] += low[i] >= until ? T(1) : T(0);
        }
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const bool inside = N == 1 ? x[i] >= 0 && x[i] <= last : low[i] >= 0 && low[i] <= last;
        at[first + i] =
            inside && of_first[i] == of_last[i] ? static_cast<std::uint8_t>(of_first[i]) : any;
      }
    }
  }

  // To rows [begin, end) of the image, which are the ones of `part`, where points' parts are known.
  void add(std::int64_t begin, std::int64_t end, const std::uint8_t* at, std::uint8_t part) {
    constexpr std::int64_t block = 256;
    std::int64_t points[block + lanes];
    int n = 0;
    const auto take = [&](const std::int64_t* from, int some) {
      each(from, some, [&](std::int64_t point, const Rows* rows, int l) {
        if constexpr (together)
          if (rows)
            return kernels::grid_take<T, K>(call_, member_, point, [&](T* to, T value, const T* d) {
              rows->add(to, plane_, row_, l, value, d, begin, end);
            });
        kernels::grid_add<T, K, N>(call_, member_, point, begin, end);
      });
    };
    for (std::int64_t i = 0; i < call_.points;) {
      for (const std::int64_t stop = std::min(i + block, call_.points); i < stop; ++i) {
        points[n] = i;
        n += !at || at[i] == part || at[i] == any;
      }
      int taken = 0;
      for (; n - taken >= lanes; taken += lanes) take(points + taken, lanes);
      n -= taken;
      std::copy_n(points + taken, n, points);
    }
    take(points, n);
  }

 private:
  static constexpr bool together = N > 0 && K < 2 && std::is_same_v<T, float>;
  using Rows = kernels::GridRows<K, std::max(N, 1)>;
  static constexpr std::uint8_t any = 255;
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

  const GridCall& call_;
  std::int64_t member_;
  const T* x_;
  std::int64_t plane_ = call_.shape[1] * call_.shape[2], row_ = call_.shape[2];
  bool fit_ = false;
  std::conditional_t<together, Rows, int> rows_;
};

// Each thread has rows of the image, sets them to 0 and goes over the points that may lie in them.
template <class T, class Of>
void add_all(const GridCall& call, std::int64_t member) {
  const std::int64_t rows = call.shape[0], parts = std::min<std::int64_t>(team_size(), rows),
                     row = call.voxels() / rows;
  std::vector<std::uint8_t> at(parts > 1 ? call.points : 0);
  if (parts > 1)
    team_for(call.points, [&](std::int64_t begin, std::int64_t end) {
      Of(call, member).find_parts(begin, end, parts, at.data());
    });
  team_run(static_cast<int>(parts), [&](int part) {
    const std::int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
    T* const out = static_cast<T*>(call.out) + member * call.channels * call.voxels();
    for (std::int64_t c = 0; c < call.channels; ++c)
      std::fill(out + c * call.voxels() + begin * row, out + c * call.voxels() + end * row, T(0));
    Of(call, member)
        .add(begin, end, parts > 1 ? at.data() : nullptr, static_cast<std::uint8_t>(part));
  });
}

template <class T>
void run(const GridCall& call) {
  kernels::with_grid<std::is_same_v<T, float>>(call, [&](auto derivatives, auto nodes) {
    using Of = Points<T, decltype(derivatives)::value, decltype(nodes)::value>;
    for (std::int64_t b = 0; b < call.batch; ++b) {
      if (call.adds()) {
        if constexpr (decltype(derivatives)::value < 2) add_all<T, Of>(call, b);
        continue;
      }
      team_for(call.points,
               [&](std::int64_t begin, std::int64_t end) { Of(call, b).read(begin, end); });
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

// Adds on a device, some points at a time so that their uses, which LibTorch sorts, take no more
// than 300 MB.
void add_there(const CudaCall& cuda, const GridCall& call, const at::TensorOptions& there) {
  const std::int64_t all = call.batch * call.points, lines = call.batch * call.lines(),
                     at_once = (std::int64_t{1} << 23) / kernels::GridUses::of_a_point(call);
  if (lines >= std::int64_t{1} << 31)
    throw DataError("a resampling on a GPU adds to fewer than 2^31 lines of voxels");
  for (std::int64_t begin = 0; begin < all; begin += at_once) {
    kernels::GridUses uses;
    uses.begin = begin;
    uses.end = std::min(begin + at_once, all);
    const at::Tensor line = at::empty({uses.count(call)}, there.dtype(at::kInt));
    uses.line = line.mutable_data_ptr<std::int32_t>();
    cuda.require(cuda.table.grid_uses(call, uses, cuda.stream));
    const auto [sorted, order] = at::sort(line, /*stable=*/true, 0, /*descending=*/false);
    const at::Tensor first = at::searchsorted(sorted, at::arange(lines + 1, line.options()));
    uses.sorted = order.const_data_ptr<std::int64_t>();
    uses.first = first.const_data_ptr<std::int64_t>();
    cuda.require(cuda.table.grid_add(call, uses, cuda.stream));
  }
}

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
  at::Tensor out;
  if (call.adds())
    out = g.is_cuda() ? at::zeros(joined({call.batch, call.channels}, shape), g.options())
                      : at::empty(joined({call.batch, call.channels}, shape), g.options());
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
    if (call.adds())
      add_there(cuda, call, g.options());
    else
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
