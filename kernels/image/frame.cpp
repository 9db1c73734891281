#include "kernels/image/frame.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/team.h"

namespace sluice {
namespace {

// Of t's axis, which voxel stands for each of a frame.
at::Tensor clamped_voxels(const at::Tensor& t, std::int64_t n, std::int64_t margin) {
  return at::arange(-margin, n + margin, t.options().dtype(at::kLong)).clamp(0, n - 1);
}

// Row by row: what stands for a row of the frame, between its two ends.
at::Tensor framed_on_host(const at::Tensor& t, const Margin& margin, bool clamped) {
  const auto size = t.sizes();
  std::vector<std::int64_t> wide{size[0]};
  for (std::size_t a = 0; a < 3; ++a) wide.push_back(size[a + 1] + 2 * margin[a]);
  at::Tensor out = at::empty(wide, t.options());
  const std::int64_t each = t.element_size(), row = size[3] * each, end = margin[2] * each;
  const auto* const from = static_cast<const char*>(t.const_data_ptr());
  auto* const to = static_cast<char*>(out.data_ptr());
  // -1: none.
  const auto stands = [&](std::int64_t i, int axis) {
    const std::int64_t n = size[axis + 1];
    return clamped ? std::clamp<std::int64_t>(i, 0, n - 1) : i < 0 || i >= n ? -1 : i;
  };
  team_for(wide[0] * wide[1] * wide[2], [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t x = stands(r / wide[2] % wide[1] - margin[0], 0),
                         y = stands(r % wide[2] - margin[1], 1);
      char* const here = to + r * (row + 2 * end);
      if (x < 0 || y < 0) {
        std::memset(here, 0, row + 2 * end);
        continue;
      }
      const char* const there =
          from + ((r / (wide[2] * wide[1]) * size[1] + x) * size[2] + y) * row;
      std::memcpy(here + end, there, row);
      for (std::int64_t i = 0; i < end; i += each) {
        if (clamped) {
          std::memcpy(here + i, there, each);
          std::memcpy(here + end + row + i, there + row - each, each);
        } else {
          std::memset(here + i, 0, each);
          std::memset(here + end + row + i, 0, each);
        }
      }
    }
  });
  return out;
}

}  // namespace

at::Tensor framed(at::Tensor t, const Margin& margin, bool clamped) {
  if (!t.is_cuda()) return framed_on_host(t.contiguous(), margin, clamped);
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
