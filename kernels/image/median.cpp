#include "kernels/image/median.h"

#include <ATen/ops/max_pool3d.h>

#include <limits>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/frame.h"
#include "kernels/image/median_voxel.h"

namespace sluice {
namespace {

using kernels::MedianCall;
using kernels::MedianWork;

// Where the voxels of a window are in a framed volume, from its first.
at::Tensor offsets(const at::Tensor& framed, const Margin& r) {
  std::vector<std::int64_t> by;
  for (std::int64_t a = 0; a <= 2 * r[0]; ++a)
    for (std::int64_t b = 0; b <= 2 * r[1]; ++b)
      for (std::int64_t c = 0; c <= 2 * r[2]; ++c)
        by.push_back(a * framed.stride(1) + b * framed.stride(2) + c);
  return at::tensor(by, at::kLong).to(framed.device());
}

// volume [N, X, Y, Z]
template <class T>
MedianCall<T> call_of(const at::Tensor& volume, const at::Tensor& framed, const at::Tensor& by,
                      const Margin& r) {
  MedianCall<T> c;
  c.volumes = volume.size(0);
  for (int a = 0; a < 3; ++a) {
    c.of[a] = volume.size(a + 1);
    c.wide[a] = 2 * r[a] + 1;
  }
  c.by = by.const_data_ptr<std::int64_t>();
  c.image = framed.const_data_ptr<T>();
  return c;
}

void run_there(const MedianCall<float>& c, MedianWork work, const at::Tensor& on) {
  if (c.count() > 1021)
    throw DataError("a median of " + std::to_string(c.count()) +
                    " voxels runs on the host alone; a device holds 1021");
  const CudaCall cuda(on);
  cuda.require(cuda.table.median(c, work, cuda.stream));
}
void run_there(const MedianCall<double>&, MedianWork, const at::Tensor&) {
  throw DataError("a median of float64 runs on the host alone");
}

// Rows, 16 voxels at a time; the last ones of a row are done with some before them.
template <class T>
void medians(const MedianCall<T>& c) {
  constexpr int lanes = 16;
  const std::int64_t Z = c.of[2];
  team_for(c.volumes * c.of[0] * c.of[1], [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> held(kernels::median_held(c.count()) * lanes);
    for (std::int64_t row = begin * Z; row < end * Z; row += Z) {
      if (Z >= lanes)
        for (std::int64_t z = 0; z < Z; z += lanes)
          kernels::median_of<T, lanes>(c, row + std::min(z, Z - lanes), held.data());
      else
        for (std::int64_t z = 0; z < Z; ++z) kernels::median_of<T, 1>(c, row + z, held.data());
    }
  });
}

template <class T>
void run(const MedianCall<T>& c, MedianWork work, const at::Tensor& on) {
  if (on.is_cuda()) return run_there(c, work, on);
  if (work == MedianWork::median) return medians(c);
  const bool gather = work == MedianWork::gather;
  team_for(gather ? c.cells() : c.voxels(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      gather ? kernels::median_gather(c, i) : kernels::median_choose(c, i);
  });
}

// f(T{}) with the image's type.
template <class F>
at::Tensor with_type(const at::Tensor& t, F&& f) {
  return t.scalar_type() == at::kDouble ? f(double{}) : f(float{});
}

at::Tensor medians_of(const at::Tensor& volume, const Margin& r) {
  return with_type(volume, [&](auto type) {
    using T = decltype(type);
    const at::Tensor from = framed(volume, r, true), by = offsets(from, r),
                     out = at::empty_like(volume);
    MedianCall<T> c = call_of<T>(volume, from, by, r);
    c.out = out.template mutable_data_ptr<T>();
    run(c, MedianWork::median, volume);
    return out;
  });
}

struct SavedMedian {
  at::Tensor image, out;  // [N, X, Y, Z]
  Margin radius;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::NoGradGuard no_grad;
    const at::Tensor grad = grads[0].contiguous();
    return {with_type(image, [&](auto type) {
              using T = decltype(type);
              const at::Tensor from = framed(image, radius, true), by = offsets(from, radius),
                               chosen = at::empty(image.sizes(), image.options().dtype(at::kInt)),
                               in_frame = at::empty_like(from);
              MedianCall<T> c = call_of<T>(image, from, by, radius);
              c.median = out.template const_data_ptr<T>();
              c.grad = grad.template const_data_ptr<T>();
              c.chosen = chosen.template mutable_data_ptr<std::int32_t>();
              c.out = in_frame.template mutable_data_ptr<T>();
              run(c, MedianWork::choose, image);
              run(c, MedianWork::gather, image);
              return folded(in_frame, radius);
            }).view(grad.sizes())};
  }
};

}  // namespace

at::Tensor median_filter(const at::Tensor& given, const std::vector<std::int64_t>& radius) {
  const at::Tensor image = with_three_axes(given.detach().flatten(0, 1)).contiguous();
  const std::int64_t axes = given.dim() - 2;
  Margin r{0, 0, 0};
  for (std::int64_t a = 0; a < axes; ++a) r[3 - axes + a] = radius[radius.size() == 1 ? 0 : a];
  at::Tensor out;
  {
    const at::NoGradGuard no_grad;
    out = medians_of(image, r);
    // No order has a place for NaN: a window with one has no median.
    if (const at::Tensor holes = image.isnan(); holes.any().item<bool>())
      out.masked_fill_(
          at::max_pool3d(holes.to(at::kFloat), {2 * r[0] + 1, 2 * r[1] + 1, 2 * r[2] + 1},
                         {1, 1, 1}, {r[0], r[1], r[2]})
              .gt(0),
          std::numeric_limits<double>::quiet_NaN());
  }
  const at::Tensor shaped = out.view(given.sizes());
  attach("MedianBackward", {shaped}, {given}, SavedMedian{image, out.detach(), r});
  return shaped;
}

}  // namespace sluice
