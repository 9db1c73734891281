// Resampling where the axes stay apart (voxel sizes change, nothing turns): every axis has one
// table of cells and weights, and the volume is interpolated along x, then y, then z.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/error.h"
#include "kernels/base/inner_parallel.h"
#include "kernels/base/into.h"
#include "kernels/base/word.h"
#include "kernels/image/resample_paths.h"

namespace sluice {
namespace {

struct LinearTable {
  std::vector<std::int32_t> cell;
  std::vector<float> w0, w1;
  std::int64_t next;     // elements from a cell to its neighbour; 0 on an axis of one voxel
  bool shifted = false;  // every voxel reads exactly one, and in order: a copy
};

template <Padding P>
LinearTable linear_table(const SampledAxis<double>& axis, double start, double step,
                         std::int64_t first, std::int64_t n, std::int64_t next) {
  LinearTable t{std::vector<std::int32_t>(n), std::vector<float>(n), std::vector<float>(n),
                axis.step == 0 ? 0 : next};
  t.shifted = true;
  for (std::int64_t i = 0; i < n; ++i) {
    t.cell[i] =
        linear_tap<P>(axis, start + static_cast<double>(first + i) * step, t.w0[i], t.w1[i]);
    // Beside a whole 1 the other weight is below a float's digits: whether a row is a copy is then
    // nothing that shows, and a part of the rows may be one where the whole is none.
    if (t.w0[i] == 1) t.w1[i] = 0;
    t.shifted &= t.w0[i] == 1 && t.cell[i] == t.cell[0] + i;
  }
  return t;
}

LinearTable linear_table(Padding p, const SampledAxis<double>& axis, double start, double step,
                         std::int64_t first, std::int64_t n, std::int64_t next) {
  if (p == Padding::zeros) return linear_table<Padding::zeros>(axis, start, step, first, n, next);
  if (p == Padding::border) return linear_table<Padding::border>(axis, start, step, first, n, next);
  return linear_table<Padding::reflection>(axis, start, step, first, n, next);
}

// w0 * a + w1 * b; no copy where b has no weight.
const float* blend(const float* a, const float* b, float w0, float w1, std::int64_t n,
                   std::vector<float>& scratch) {
  if (w0 == 1 && w1 == 0) return a;
  float* out = scratch.data();
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * w0 + b[i] * w1;
  return out;
}

void linear_plane(const float* plane, float* out, const Volumes& v, const LinearTable& y,
                  const LinearTable& z, std::vector<float>& scratch) {
  const std::int64_t length = v.source_shape[2], n = v.shape[2];
  const std::int32_t* cell = z.cell.data();
  const float *w0 = z.w0.data(), *w1 = z.w1.data();
  for (std::int64_t j = 0; j < v.shape[1]; ++j, out += n) {
    const float* a = plane + y.cell[j] * length;
    const float* row = blend(a, a + y.next, y.w0[j], y.w1[j], length, scratch);
    if (z.shifted) {
      std::memcpy(out, row + cell[0], static_cast<std::size_t>(n) * sizeof(float));
      continue;
    }
    const float* next = row + z.next;
    for (std::int64_t k = 0; k < n; ++k) out[k] = row[cell[k]] * w0[k] + next[cell[k]] * w1[k];
  }
}

void linear(const Volumes& v, const Affine& m, Padding p) {
  const std::int64_t length = v.source_shape[2], plane_size = v.source_shape[1] * length;
  const LinearTable x = linear_table(p, v.axis[0], m[3], m[0], v.start[0], v.shape[0], plane_size);
  const LinearTable y = linear_table(p, v.axis[1], m[7], m[5], v.start[1], v.shape[1], length);
  const LinearTable z = linear_table(p, v.axis[2], m[11], m[10], v.start[2], v.shape[2], 1);
  for_range(v.shape[0], v.parallel, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> plane(static_cast<std::size_t>(plane_size));
    std::vector<float> row(static_cast<std::size_t>(length));
    for (std::int64_t c = 0; c < v.channels; ++c)
      for (std::int64_t i = begin; i < end; ++i) {
        const float* a =
            reinterpret_cast<const float*>(v.source) + c * v.source_voxels + x.cell[i] * plane_size;
        const float* at = blend(a, a + x.next, x.w0[i], x.w1[i], plane_size, plane);
        float* out =
            reinterpret_cast<float*>(v.out) + c * v.out_voxels + i * v.shape[1] * v.shape[2];
        linear_plane(at, out, v, y, z, row);
      }
  });
}

// Voxel numbers, -1 where a voxel is outside and stays 0.
template <Padding P>
std::vector<std::int32_t> nearest_table(const SampledAxis<double>& axis, double start, double step,
                                        std::int64_t first, std::int64_t n) {
  std::vector<std::int32_t> t(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    std::int32_t inside;
    t[i] = nearest_tap<P>(axis, start + static_cast<double>(first + i) * step, inside);
    if (!inside) t[i] = -1;
  }
  return t;
}

std::vector<std::int32_t> nearest_table(Padding p, const SampledAxis<double>& axis, double start,
                                        double step, std::int64_t first, std::int64_t n) {
  if (p == Padding::zeros) return nearest_table<Padding::zeros>(axis, start, step, first, n);
  if (p == Padding::border) return nearest_table<Padding::border>(axis, start, step, first, n);
  return nearest_table<Padding::reflection>(axis, start, step, first, n);
}

template <class Word>
void nearest(const Volumes& v, const Affine& m, Padding p) {
  const auto x = nearest_table(p, v.axis[0], m[3], m[0], v.start[0], v.shape[0]);
  const auto y = nearest_table(p, v.axis[1], m[7], m[5], v.start[1], v.shape[1]);
  const auto z = nearest_table(p, v.axis[2], m[11], m[10], v.start[2], v.shape[2]);
  // Along z the voxels inside are one run; what lies around it stays 0.
  std::int64_t from = 0, to = v.shape[2];
  while (from < to && z[from] < 0) ++from;
  while (to > from && z[to - 1] < 0) --to;
  const std::int64_t rows = v.shape[0] * v.shape[1];
  for_range(v.channels * rows, v.parallel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t c = r / rows, i = r % rows / v.shape[1], j = r % v.shape[1];
      Word* out = reinterpret_cast<Word*>(v.out) + r * v.shape[2];
      const bool inside = x[i] >= 0 && y[j] >= 0;
      const std::int64_t begin_z = inside ? from : v.shape[2], end_z = inside ? to : v.shape[2];
      std::fill(out, out + begin_z, Word{});
      std::fill(out + end_z, out + v.shape[2], Word{});
      if (!inside) continue;
      const Word* in = reinterpret_cast<const Word*>(v.source) + c * v.source_voxels +
                       (x[i] * v.source_shape[1] + y[j]) * v.source_shape[2];
      for (std::int64_t k = begin_z; k < end_z; ++k) out[k] = in[z[k]];
    }
  });
}

template <class Real>
std::array<SampledAxis<Real>, 3> axes(const Shape3& s, bool align_corners) {
  using Axis = SampledAxis<Real>;
  return {Axis::make(s[0], s[1] * s[2], align_corners), Axis::make(s[1], s[2], align_corners),
          Axis::make(s[2], 1, align_corners)};
}

}  // namespace

Resampling::Resampling(const at::Tensor& volume, const Shape3& whole, const Sampling& how,
                       const Box& part, const at::Tensor& into) {
  if (volume.dim() != 4 || volume.numel() == 0)
    throw DataError("resampling needs a tensor [C, X, Y, Z], not one of rank " +
                    std::to_string(volume.dim()) + " with " + std::to_string(volume.numel()) +
                    " elements");
  source =
      how.mode == Interpolation::linear ? volume.to(at::kFloat).contiguous() : volume.contiguous();
  const Shape3& shape = part.size;
  out = room(into, {source.size(0), shape[0], shape[1], shape[2]}, source.options());
  const Shape3 s{source.size(1), source.size(2), source.size(3)};
  const std::int64_t voxels = s[0] * s[1] * s[2];
  if (voxels > std::int64_t{1} << 31)
    throw DataError("a volume of " + std::to_string(voxels) + " voxels is more than 2^31");
  volumes = {static_cast<const std::byte*>(source.const_data_ptr()),
             static_cast<std::byte*>(out.mutable_data_ptr()),
             source.size(0),
             voxels,
             shape[0] * shape[1] * shape[2],
             s,
             shape,
             part.start,
             whole[2],
             axes<double>(s, how.align_corners),
             axes<float>(s, how.align_corners),
             how.parallel};
}

bool axis_aligned(const Affine& m, const Shape3& shape) {
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      if (r != c && !(std::abs(m[4 * r + c]) * static_cast<double>(shape[c]) < 1e-7)) return false;
  return true;
}

at::Tensor resample_separable(const at::Tensor& volume, const Affine& to_source,
                              const Sampling& how, const Box& part, const at::Tensor& into) {
  Resampling r(volume, part.size, how, part, into);
  if (how.mode == Interpolation::linear)
    linear(r.volumes, to_source, how.padding);
  else
    for_word(r.out.element_size(),
             [&](auto word) { nearest<decltype(word)>(r.volumes, to_source, how.padding); });
  return r.out;
}

}  // namespace sluice
