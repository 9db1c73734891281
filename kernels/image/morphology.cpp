#include "kernels/image/morphology.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// The ball as rows along z: those of one reach, by how far off they lie in x and y.
struct Offset {
  std::int64_t x, y;
};
using Reach = std::pair<std::int64_t, std::int64_t>;  // from, to
using Rows = std::map<Reach, std::vector<Offset>>;

Rows rows_of_ball(double radius) {
  const auto m = static_cast<std::int64_t>(2 * radius + 1), first = -((m - 1) / 2);
  const double step = m > 1 ? 2 * radius / static_cast<double>(m - 1) : 0;
  std::vector<double> square(m);
  for (std::int64_t i = 0; i < m; ++i) {
    const double at = static_cast<double>(i) * step - radius;
    square[i] = at * at;
  }
  Rows rows;
  for (std::int64_t x = 0; x < m; ++x)
    for (std::int64_t y = 0; y < m; ++y) {
      std::int64_t from = m, to = -1;
      for (std::int64_t z = 0; z < m; ++z) {
        if (square[z] + square[y] + square[x] > radius * radius) continue;
        from = std::min(from, z);
        to = z;
      }
      if (to >= 0) rows[{first + from, first + to}].push_back({first + x, first + y});
    }
  return rows;
}

// Whether any of row[z + reach.first .. z + reach.second] is set.
void spread(const std::uint8_t* row, std::uint8_t* out, std::int64_t n, const Reach& reach) {
  std::int64_t last = -1;  // the last that is set up to the window's end
  std::int64_t seen = 0;
  for (std::int64_t z = 0; z < n; ++z) {
    for (const std::int64_t end = std::min(n, z + reach.second + 1); seen < end; ++seen)
      if (row[seen] != 0) last = seen;
    out[z] = last >= 0 && last >= z + reach.first ? 1 : 0;
  }
}

}  // namespace

at::Tensor dilated(const at::Tensor& mask, double radius) {
  const std::int64_t nx = mask.size(0), ny = mask.size(1), nz = mask.size(2);
  at::Tensor result = at::zeros_like(mask), rows = at::empty_like(mask);
  const auto* in = mask.const_data_ptr<std::uint8_t>();
  auto* out = result.mutable_data_ptr<std::uint8_t>();
  auto* wide = rows.mutable_data_ptr<std::uint8_t>();
  for (const auto& [reach, offsets] : rows_of_ball(radius)) {
    for (std::int64_t r = 0; r < nx * ny; ++r) spread(in + r * nz, wide + r * nz, nz, reach);
    for (std::int64_t x = 0; x < nx; ++x)
      for (std::int64_t y = 0; y < ny; ++y) {
        std::uint8_t* to = out + (x * ny + y) * nz;
        for (const Offset& o : offsets) {
          const std::int64_t fx = x + o.x, fy = y + o.y;
          if (fx < 0 || fx >= nx || fy < 0 || fy >= ny) continue;
          const std::uint8_t* from = wide + (fx * ny + fy) * nz;
          for (std::int64_t z = 0; z < nz; ++z) to[z] |= from[z];
        }
      }
  }
  return result;
}

at::Tensor eroded(const at::Tensor& mask, double radius) {
  return dilated(mask.eq(0).to(at::kByte), radius).eq(0).to(at::kByte);
}

at::Tensor dilated_in_steps(const at::Tensor& mask, std::int64_t iterations,
                            std::int64_t first_axis) {
  // Steps from the nearest voxel of the mask: the axes one after the other, from both ends.
  const at::Tensor steps =
      at::full_like(mask, iterations + 1, at::kInt).masked_fill_(mask.ne(0), 0);
  for (std::int64_t axis = first_axis; axis < mask.dim(); ++axis) {
    const auto reach = [&](std::int64_t from, std::int64_t to) {
      const at::Tensor at = steps.select(axis, to);
      at.copy_(at::minimum(at, steps.select(axis, from) + 1));
    };
    const std::int64_t n = mask.size(axis);
    for (std::int64_t i = 1; i < n; ++i) reach(i - 1, i);
    for (std::int64_t i = n - 1; i > 0; --i) reach(i, i - 1);
  }
  return steps.le(iterations).to(mask.scalar_type());
}

}  // namespace sluice
