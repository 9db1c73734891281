// Volumes in a frame, so that a loop over a window needs no case for the border.
//
// Invariant: a volume is [C, X, Y, Z]; axes that an image lacks come first, with one voxel and a
// frame of none.
#pragma once

#include <ATen/Functions.h>

#include <array>

namespace sluice {

using Margin = std::array<std::int64_t, 3>;

// [C, ...] -> [C, X, Y, Z]
inline at::Tensor with_three_axes(at::Tensor t) {
  while (t.dim() < 4) t = t.unsqueeze(1);
  return t;
}

// Of t's axis, which voxel stands for each of a frame.
inline at::Tensor clamped_voxels(const at::Tensor& t, std::int64_t n, std::int64_t margin) {
  return at::arange(-margin, n + margin, t.options().dtype(at::kLong)).clamp(0, n - 1);
}

// In a frame: of the nearest voxels, or zeros.
inline at::Tensor framed(at::Tensor t, const Margin& margin, bool clamped) {
  if (!clamped)
    return at::constant_pad_nd(t,
                               {margin[2], margin[2], margin[1], margin[1], margin[0], margin[0]})
        .contiguous();
  for (std::int64_t a = 0; a < 3; ++a)
    if (margin[a] > 0) t = t.index_select(a + 1, clamped_voxels(t, t.size(a + 1), margin[a]));
  return t.contiguous();
}

// The adjoint of a frame of nearest voxels.
inline at::Tensor folded(at::Tensor t, const Margin& margin) {
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
