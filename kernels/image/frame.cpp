#include "kernels/image/frame.h"

#include <algorithm>

#include "kernels/image/separable.h"

namespace sluice {
namespace {

// Of t's axis, which voxel stands for each of a frame.
at::Tensor clamped_voxels(const at::Tensor& t, std::int64_t n, std::int64_t margin) {
  return at::arange(-margin, n + margin, t.options().dtype(at::kLong)).clamp(0, n - 1);
}

}  // namespace

at::Tensor framed(at::Tensor t, const Margin& margin, bool clamped) {
  if (!t.is_cuda()) {
    Picks picks;
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t n = t.size(static_cast<std::int64_t>(a) + 1);
      for (std::int64_t i = -margin[a]; i < n + margin[a]; ++i)
        picks[a].push_back(static_cast<std::int32_t>(clamped ? std::clamp<std::int64_t>(i, 0, n - 1)
                                                     : i < 0 || i >= n ? -1
                                                                       : i));
    }
    return pick(t, picks);
  }
  if (!clamped)
    return at::constant_pad_nd(t,
                               {margin[2], margin[2], margin[1], margin[1], margin[0], margin[0]})
        .contiguous();
  for (std::int64_t a = 0; a < 3; ++a)
    if (margin[a] > 0) t = t.index_select(a + 1, clamped_voxels(t, t.size(a + 1), margin[a]));
  return t.contiguous();
}

at::Tensor folded(at::Tensor t, const Margin& margin) {
  for (std::int64_t a = 0; a < 3; ++a) {
    if (margin[a] == 0) continue;
    auto shape = t.sizes().vec();
    shape[a + 1] -= 2 * margin[a];
    if (t.is_cuda()) {  // whose index_add_ has another order in each run
      const std::int64_t m = margin[a], n = shape[a + 1];
      at::Tensor inner = t.narrow(a + 1, m, n).clone();
      inner.select(a + 1, 0).add_(t.narrow(a + 1, 0, m).sum(a + 1));
      inner.select(a + 1, n - 1).add_(t.narrow(a + 1, m + n, m).sum(a + 1));
      t = inner;
      continue;
    }
    t = at::zeros(shape, t.options())
            .index_add_(a + 1, clamped_voxels(t, shape[a + 1], margin[a]), t);
  }
  return t;
}

}  // namespace sluice
