#include "kernels/image/resample.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/error.h"
#include "kernels/base/inner_parallel.h"
#include "kernels/base/simd.h"
#include "kernels/base/word.h"
#include "kernels/image/resample_paths.h"

namespace sluice {
namespace {

// Rows that follow each other along x read neighbouring voxels; a strip of this many rows at a
// time keeps what a rotated strip reads in the L2 cache.
constexpr std::int64_t tile = 32;
constexpr int block = 64;  // voxels of a row worked on at a time; their scratch stays in L1

// ---- from coordinates to values: a block of one row ---------------------------------------------

// Coordinates from a voxel near the block: no float is much larger than the block is long, so
// rounding stays below 1e-5 voxel in volumes of any size.
struct Coordinates {
  std::int32_t origin[3];
  float c[3][block];

  // Splits a coordinate into a whole voxel near it and the rest.
  float start(int axis, double c0) {
    const double o = std::floor(clamp_to(c0, -1e6, 1e6));
    origin[axis] = static_cast<std::int32_t>(o);
    return static_cast<float>(c0 - o);
  }
};

// Voxel and next voxel of a row at eight places, by eight loads of both: quicker than gathers.
struct Pairs {
  F8 low, high;
  SLUICE_INLINE Pairs(const float* p, const std::int32_t* at) {
    using Two = double __attribute__((vector_size(16)));
    const auto both = [p, at](int i) {
      double bits;
      std::memcpy(&bits, p + at[i], sizeof bits);
      return bits;
    };
    const Two a{both(0), both(1)}, b{both(2), both(3)}, c{both(4), both(5)}, d{both(6), both(7)};
    const F8 x = std::bit_cast<F8>(__builtin_shufflevector(a, c, 0, 1, 2, 3));
    const F8 y = std::bit_cast<F8>(__builtin_shufflevector(b, d, 0, 1, 2, 3));
    low = __builtin_shufflevector(x, y, 0, 2, 8, 10, 4, 6, 12, 14);
    high = __builtin_shufflevector(x, y, 1, 3, 9, 11, 5, 7, 13, 15);
  }
  SLUICE_INLINE F8 between(F8 w0, F8 w1) const { return low * w0 + high * w1; }
};

// The cells of a block's voxels and the weights of an axis' two; after the n-th what is harmless.
struct Cells {
  std::int32_t base[block];
  float w[3][2][block];

  template <Padding P>
  void fill(const Volumes& v, const Coordinates& at, int n) {
    for (int k = 0; k < n; ++k) base[k] = 0;
    for (int d = 0; d < 3; ++d) {
      const SampledAxis<float> a = v.near_axis[d].from(at.origin[d]);
      const float* c = at.c[d];
      float *low = w[d][0], *high = w[d][1];
      for (int k = 0; k < n; ++k) base[k] += linear_tap<P>(a, c[k], low[k], high[k]) * a.step;
    }
    for (int k = n; k % 8 != 0; ++k) {
      base[k] = 0;
      for (auto& axis : w) axis[0][k] = axis[1][k] = 0;
    }
  }
  F8 weight(int d, int which, int k) const { return load<F8>(w[d][which] + k); }
};

// Eight voxels of one channel from the k-th on. A picture (`flat`) has four around each, not eight.
template <bool flat>
SLUICE_INLINE inline F8 eight(const float* p, const Cells& cells, const Volumes& v, int k) {
  const std::int64_t sx = v.axis[0].step, sy = v.axis[1].step;
  const std::int32_t* at = cells.base + k;
  const F8 z0 = cells.weight(2, 0, k), z1 = cells.weight(2, 1, k);
  const F8 y0 = cells.weight(1, 0, k), y1 = cells.weight(1, 1, k);
  const F8 x0 = cells.weight(0, 0, k), x1 = cells.weight(0, 1, k);
  const F8 a = Pairs(p, at).between(z0, z1), c = Pairs(p + sx, at).between(z0, z1);
  if constexpr (flat) return (a * x0 + c * x1) * (y0 + y1);
  const F8 b = Pairs(p + sy, at).between(z0, z1), d = Pairs(p + sx + sy, at).between(z0, z1);
  return (a * y0 + b * y1) * x0 + (c * y0 + d * y1) * x1;
}

template <bool flat>
void linear_rows(const Volumes& v, const Cells& cells, int n, std::int64_t out_at) {
  for (std::int64_t ch = 0; ch < v.channels; ++ch) {
    const float* p = reinterpret_cast<const float*>(v.source) + ch * v.source_voxels;
    float* out = reinterpret_cast<float*>(v.out) + ch * v.out_voxels + out_at;
    int k = 0;
    for (; k + 8 <= n; k += 8) {
      __builtin_prefetch(p + cells.base[k] + v.ahead);
      store(out + k, eight<flat>(p, cells, v, k));
    }
    if (k == n) continue;
    const F8 last = eight<flat>(p, cells, v, k);
    std::memcpy(out + k, &last, static_cast<std::size_t>(n - k) * sizeof(float));
  }
}

// Rows of one voxel: there is no next one to read.
void linear_points(const Volumes& v, const Cells& cells, int n, std::int64_t out_at) {
  const std::int64_t sx = v.axis[0].step, sy = v.axis[1].step;
  const auto& w = cells.w;
  for (std::int64_t ch = 0; ch < v.channels; ++ch) {
    const float* p = reinterpret_cast<const float*>(v.source) + ch * v.source_voxels;
    float* out = reinterpret_cast<float*>(v.out) + ch * v.out_voxels + out_at;
    for (int k = 0; k < n; ++k) {
      const float* q = p + cells.base[k];
      const float a = q[0] * w[1][0][k] + q[sy] * w[1][1][k];
      const float c = q[sx] * w[1][0][k] + q[sx + sy] * w[1][1][k];
      out[k] = (a * w[0][0][k] + c * w[0][1][k]) * (w[2][0][k] + w[2][1][k]);
    }
  }
}

template <Padding P>
void linear_block(const Volumes& v, const Coordinates& at, int n, std::int64_t out_at) {
  Cells cells;
  cells.fill<P>(v, at, n);
  if (v.axis[2].step == 0) return linear_points(v, cells, n, out_at);
  if (v.axis[1].step == 0) return linear_rows<true>(v, cells, n, out_at);
  linear_rows<false>(v, cells, n, out_at);
}

template <Padding P, class Word>
void nearest_block(const Volumes& v, const Coordinates& at, int n, std::int64_t out_at) {
  std::int32_t base[block], inside[block];
  for (int k = 0; k < n; ++k) base[k] = 0, inside[k] = 1;
  for (int d = 0; d < 3; ++d) {
    const SampledAxis<float> a = v.near_axis[d].from(at.origin[d]);
    const float* c = at.c[d];
    for (int k = 0; k < n; ++k) {
      std::int32_t in;
      base[k] += nearest_tap<P>(a, c[k], in) * a.step;
      inside[k] &= in;
    }
  }
  for (std::int64_t ch = 0; ch < v.channels; ++ch) {
    const Word* p = reinterpret_cast<const Word*>(v.source) + ch * v.source_voxels;
    Word* out = reinterpret_cast<Word*>(v.out) + ch * v.out_voxels + out_at;
    for (int k = 0; k < n; ++k) out[k] = P != Padding::zeros || inside[k] ? p[base[k]] : Word{};
  }
}

// ---- where a row reads --------------------------------------------------------------------------

// An affine row: a start and a step, so the part of it that lies inside is known beforehand.
struct AffineRows {
  Affine m;

  struct Row {
    Vec3 start, step;
    // Of the block that begins at `from`, voxels skip .. skip + n.
    void fill(Coordinates& at, std::int64_t from, int skip, int n) const {
      for (int d = 0; d < 3; ++d) {
        const float first = at.start(d, start[d] + static_cast<double>(from) * step[d]);
        const float each = static_cast<float>(step[d]);
        for (int k = 0; k < n; ++k) at.c[d][k] = first + static_cast<float>(skip + k) * each;
      }
    }
  };
  Row row(std::int64_t x, std::int64_t y) {
    return {map_point(m, {double(x), double(y), 0}), {m[2], m[6], m[10]}};
  }
  static constexpr bool straight = true;
};

// A deformed row: the affine of voxel plus offset, the offsets interpolated from the nodes.
struct DeformedRows {
  Affine m;
  const float* nodes;
  Shape3 count;  // nodes an axis
  int step;
  std::int64_t length;
  std::vector<float> offset = std::vector<float>(3 * static_cast<std::size_t>(length));
  std::vector<float> line = std::vector<float>(static_cast<std::size_t>(count[2]) + 1);

  struct Row {
    const Affine& m;
    double x, y;
    const float* offset;
    std::int64_t length;
    void fill(Coordinates& at, std::int64_t from, int, int n) const {  // never a part
      const float* o0 = offset + from;
      const float *o1 = o0 + length, *o2 = o1 + length;
      for (int d = 0; d < 3; ++d) {
        const double* r = m.data() + 4 * d;
        const float first = at.start(d, r[0] * x + r[1] * y + r[2] * double(from) + r[3]);
        const float mx = float(r[0]), my = float(r[1]), mz = float(r[2]);
        float* c = at.c[d];
        for (int k = 0; k < n; ++k)
          c[k] = first + mx * o0[k] + my * o1[k] + mz * (static_cast<float>(k) + o2[k]);
      }
    }
  };
  static constexpr bool straight = false;

  Row row(std::int64_t x, std::int64_t y) {
    for (int d = 0; d < 3; ++d) interpolate_line(d, x, y);
    return {m, double(x), double(y), offset.data(), length};
  }

 private:
  // Four node lines become one (weights of x and y), which is then drawn out along z.
  void interpolate_line(int component, std::int64_t x, std::int64_t y) {
    const std::int64_t i = x / step, j = y / step, nz = count[2];
    const std::int64_t i1 = std::min(i + 1, count[0] - 1), j1 = std::min(j + 1, count[1] - 1);
    const float fx = float(x % step) / step, fy = float(y % step) / step;
    const float* grid = nodes + component * count[0] * count[1] * nz;
    const float *a = grid + (i * count[1] + j) * nz, *b = grid + (i * count[1] + j1) * nz;
    const float *c = grid + (i1 * count[1] + j) * nz, *d = grid + (i1 * count[1] + j1) * nz;
    for (std::int64_t k = 0; k < nz; ++k)
      line[k] = (a[k] * (1 - fy) + b[k] * fy) * (1 - fx) + (c[k] * (1 - fy) + d[k] * fy) * fx;
    line[nz] = line[nz - 1];
    float* out = offset.data() + component * length;
    const float share = 1.0f / step;
    for (std::int64_t k = 0; k * step < length; ++k) {
      const int n = static_cast<int>(std::min<std::int64_t>(step, length - k * step));
      const float start = line[k], slope = (line[k + 1] - line[k]) * share;
      for (int s = 0; s < n; ++s) out[k * step + s] = start + slope * s;
    }
  }
};

// The range of k in 0..n for which start + k * step stays `margin` inside (negative: around) the
// centres of every axis, made shorter by one voxel at each end, so that rounding does not matter.
struct Span {
  std::int64_t begin, end;
};
Span span_within(const Volumes& v, const AffineRows::Row& row, std::int64_t n, double margin,
                 std::int64_t shorter) {
  double begin = 0, end = static_cast<double>(n);
  for (int d = 0; d < 3; ++d) {
    const SampledAxis<double>& axis = v.axis[d];
    const double low = margin, high = axis.last - margin, s = row.step[d], c = row.start[d];
    if (std::abs(s) < 1e-6) {
      const double far = c + s * static_cast<double>(n);
      const bool flat = axis.step == 0 && std::abs(c) < 1e-6 && std::abs(far) < 1e-6;
      if (!flat && !(std::min(c, far) >= low && std::max(c, far) < high)) return {0, 0};
      continue;
    }
    begin = std::max(begin, std::min((low - c) / s, (high - c) / s));
    end = std::min(end, std::max((low - c) / s, (high - c) / s));
  }
  if (!(begin < end)) return {0, 0};
  Span out{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(std::ceil(end))};
  out.begin = std::clamp<std::int64_t>(out.begin + shorter, 0, n);
  out.end = std::clamp<std::int64_t>(out.end - shorter, out.begin, n);
  return out;
}

// ---- rows ---------------------------------------------------------------------------------------

template <Padding P, Interpolation I, class Word, class Row>
void run_blocks(const Volumes& v, const Row& row, std::int64_t out_at, Span span) {
  Coordinates at;
  // Blocks stand where they stand in the whole row, so a part has the same coordinates.
  const std::int64_t first = v.start[2], last = first + v.shape[2];
  const std::int64_t left = std::max<std::int64_t>(first - span.begin, 0) / block * block;
  for (std::int64_t z = span.begin + left; z < std::min(span.end, last); z += block) {
    const std::int64_t from = std::max(z, first), to = std::min({z + block, span.end, last});
    if (from >= to) continue;
    const int n = static_cast<int>(to - from);
    row.fill(at, z, static_cast<int>(from - z), n);
    if constexpr (I == Interpolation::linear)
      linear_block<P>(v, at, n, out_at + from - first);
    else
      nearest_block<P, Word>(v, at, n, out_at + from - first);
  }
}

// A straight row is cut in up to five: nothing | padding | inside | padding | nothing.
template <Padding P, Interpolation I, class Word>
void run_straight(const Volumes& v, const AffineRows::Row& row, std::int64_t out_at) {
  const std::int64_t n = v.length;
  const Span touched = P == Padding::zeros ? span_within(v, row, n, -1, -1) : Span{0, n};
  if (P == Padding::zeros) {
    const auto within = [&](std::int64_t z) {
      return std::clamp<std::int64_t>(z - v.start[2], 0, v.shape[2]);
    };
    for (std::int64_t ch = 0; ch < v.channels; ++ch) {
      Word* out = reinterpret_cast<Word*>(v.out) + ch * v.out_voxels + out_at;
      std::fill(out, out + within(touched.begin), Word{});
      std::fill(out + within(touched.end), out + v.shape[2], Word{});
    }
  }
  Span inner = span_within(v, row, n, 0, 1);
  if (inner.begin == inner.end) inner = {touched.end, touched.end};
  run_blocks<P, I, Word>(v, row, out_at, {touched.begin, inner.begin});
  run_blocks<Padding::none, I, Word>(v, row, out_at, inner);
  run_blocks<P, I, Word>(v, row, out_at, {inner.end, touched.end});
}

template <Padding P, Interpolation I, class Word, class Rows>
void run_rows(const Volumes& v, const Rows& prototype) {
  for_range(v.shape[0], v.parallel, [&](std::int64_t begin, std::int64_t end) {
    Rows rows = prototype;  // scratch of its own
    for (std::int64_t y0 = 0; y0 < v.shape[1]; y0 += tile)
      for (std::int64_t x = begin; x < end; ++x)
        for (std::int64_t y = y0; y < std::min(y0 + tile, v.shape[1]); ++y) {
          const std::int64_t out_at = (x * v.shape[1] + y) * v.shape[2];
          const auto row = rows.row(v.start[0] + x, v.start[1] + y);
          if constexpr (Rows::straight)
            run_straight<P, I, Word>(v, row, out_at);
          else
            run_blocks<P, I, Word>(v, row, out_at, {0, v.shape[2]});
        }
  });
}

template <Interpolation I, class Word, class Rows>
void run_padding(const Volumes& v, const Rows& rows, Padding padding) {
  if (padding == Padding::zeros) return run_rows<Padding::zeros, I, Word>(v, rows);
  if (padding == Padding::border) return run_rows<Padding::border, I, Word>(v, rows);
  run_rows<Padding::reflection, I, Word>(v, rows);
}

// Rows that are turned read the source across its rows, which no processor foresees: each asks for
// what a row some way after it will read. A place outside of the volume does no harm.
std::int64_t rows_ahead(const Volumes& v, const Affine& m) {
  constexpr double rows = 8;
  const int along = v.shape[1] > 1 ? 1 : 0;  // the axis of the next row
  std::int64_t out = 0;
  for (int d = 0; d < 3; ++d)
    out += std::llround(clamp_to(rows * m[4 * d + along], -1e3, 1e3)) * v.axis[d].step;
  return out;
}

template <class Rows>
at::Tensor run(const at::Tensor& volume, const Rows& rows, const Shape3& shape, const Sampling& how,
               const Box& part, const at::Tensor& into = {}) {
  Resampling r(volume, shape, how, part, into);
  r.volumes.ahead = rows_ahead(r.volumes, rows.m);
  if (how.mode == Interpolation::linear)
    run_padding<Interpolation::linear, float>(r.volumes, rows, how.padding);
  else
    for_word(r.out.element_size(), [&](auto word) {
      run_padding<Interpolation::nearest, decltype(word)>(r.volumes, rows, how.padding);
    });
  return r.out;
}

// ---- pictures -----------------------------------------------------------------------------------

Affine exchanged(const Affine& m) {  // as of volumes: y and z
  return {m[0], m[2], m[1], m[3], m[8],  m[10], m[9],  m[11],
          m[4], m[6], m[5], m[7], m[12], m[14], m[13], m[15]};
}

}  // namespace

Interpolation parse_interpolation(const std::string& name) {
  if (name == "bilinear") return Interpolation::linear;
  if (name == "nearest") return Interpolation::nearest;
  throw DataError("mode \"" + name + "\" is none of bilinear, nearest");
}

Padding parse_padding(const std::string& name) {
  if (name == "zeros") return Padding::zeros;
  if (name == "border") return Padding::border;
  if (name == "reflection") return Padding::reflection;
  throw DataError("padding_mode \"" + name + "\" is none of zeros, border, reflection");
}

at::Tensor resample_general(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                            const Sampling& how, const Box& part, const at::Tensor& into) {
  if (is_picture(volume, shape[2]))
    return exchanged(resample_general(exchanged(volume), exchanged(to_source), exchanged(shape),
                                      how, exchanged(part), exchanged(into)));
  return run(volume, AffineRows{to_source}, shape, how, part, into);
}

at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                    const Sampling& how, const Box& part, const at::Tensor& into) {
  if (is_picture(volume, shape[2]))
    return exchanged(resample(exchanged(volume), exchanged(to_source), exchanged(shape), how,
                              exchanged(part), exchanged(into)));
  return axis_aligned(to_source, shape)
             ? resample_separable(volume, to_source, how, part, into)
             : resample_general(volume, to_source, shape, how, part, into);
}

at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                    const Sampling& how) {
  return resample(volume, to_source, shape, how, {{}, shape});
}

at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Displacement& by,
                    const Shape3& shape, const Sampling& how) {
  if (is_picture(volume, shape[2])) {
    const at::Tensor& n = by.nodes;  // and what they move y and z by
    const Displacement turned{at::stack({n[0], n[2], n[1]}).transpose(2, 3), by.step};
    return exchanged(
        resample(exchanged(volume), exchanged(to_source), turned, exchanged(shape), how));
  }
  const at::Tensor nodes = by.nodes.contiguous();
  Shape3 count;
  for (int d = 0; d < 3; ++d) {
    count[d] = nodes.size(d + 1);
    if ((count[d] - 1) * by.step < shape[d] - 1)
      throw DataError("a displacement of " + std::to_string(count[d]) + " nodes every " +
                      std::to_string(by.step) + " voxels is too short for " +
                      std::to_string(shape[d]) + " voxels");
  }
  return run(volume,
             DeformedRows{to_source, nodes.const_data_ptr<float>(), count, by.step, shape[2]},
             shape, how, {{}, shape});
}

}  // namespace sluice
