#include "kernels/image/separable.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/base/inner_parallel.h"
#include "kernels/base/into.h"
#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/base/word.h"
#include "kernels/image/float_image.h"
#include "kernels/image/spatial.h"

namespace sluice {
namespace {

// out[k] = w0 * line0[k] + w1 * line1[k] + ..., in that order. Four sums at a time hide how long an
// addition takes; g++ would keep F16 in memory. Each term is added by a fused multiply-add, as
// vectors are; g++ itself may round a product of a sum that is not one.
void weighted_sum(const float* const* lines, const float* weights, int count, std::int64_t n,
                  float* out) {
  std::int64_t k = 0;
  for (; k + 32 <= n; k += 32, out += 32) {
    const float *line = lines[0] + k, first = weights[0];
    F8 a = load<F8>(line) * first, b = load<F8>(line + 8) * first;
    F8 c = load<F8>(line + 16) * first, d = load<F8>(line + 24) * first;
    for (int t = 1; t < count; ++t) {
      const float w = weights[t];
      line = lines[t] + k;
      a += load<F8>(line) * w, b += load<F8>(line + 8) * w;
      c += load<F8>(line + 16) * w, d += load<F8>(line + 24) * w;
    }
    store(out, a), store(out + 8, b), store(out + 16, c), store(out + 24, d);
  }
  for (; k < n; ++k) {
    float sum = lines[0][k] * weights[0];
    for (int t = 1; t < count; ++t) sum = std::fma(lines[t][k], weights[t], sum);
    *out++ = sum;
  }
}

// The lines and weights of one sum.
struct Taps {
  explicit Taps(int most) : lines(most), weights(most) {}
  std::vector<const float*> lines;
  std::vector<float> weights;
};

// sum_t weight[t][i] * in[cell[t][i] * length ...]: one line of the result, `length` floats long.
// Where one voxel is taken as it is, nothing is copied.
const float* blend(const Band& band, std::int64_t i, const float* in, std::int64_t length,
                   Taps& taps, float* scratch) {
  if (band.keeps()) return in + i * length;
  int count = 0;
  for (int t = 0; t < band.taps; ++t) {
    const float w = band.weight[t * band.size + i];
    if (w == 0) continue;
    taps.lines[count] = in + band.cell[t * band.size + i] * length;
    taps.weights[count++] = w;
  }
  if (count == 1 && taps.weights[0] == 1) return taps.lines[0];
  if (count == 0)
    std::fill(scratch, scratch + length, 0.0f);
  else
    weighted_sum(taps.lines.data(), taps.weights.data(), count, length, scratch);
  return scratch;
}

// The same taps around every voxel of a row. Near its ends some of them are outside.
void filter_row(const Band& band, const float* in, std::int64_t n, Taps& taps, float* out) {
  const std::int64_t reach = band.taps / 2, inner = std::max(n - 2 * reach, std::int64_t{0});
  const auto at_end = [&](std::int64_t k) {
    const std::int64_t end = std::min<std::int64_t>(band.taps, n + reach - k);
    float sum = 0;
    for (std::int64_t t = std::max<std::int64_t>(reach - k, 0); t < end; ++t)
      sum = std::fma(band.filter[t], in[k + t - reach], sum);
    out[k] = sum;
  };
  const std::int64_t first = std::min(reach, n);
  for (std::int64_t k = 0; k < first; ++k) at_end(k);
  for (int t = 0; t < band.taps; ++t) taps.lines[t] = in + t;
  weighted_sum(taps.lines.data(), band.filter.data(), band.taps, inner, out + first);
  for (std::int64_t k = first + inner; k < n; ++k) at_end(k);
}

// As blend, along the row itself; `n` source voxels.
void map_row(const Band& band, const float* in, std::int64_t n, Taps& taps, float* out) {
  if (band.keeps()) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  if (!band.filter.empty()) return filter_row(band, in, n, taps, out);
  const float* w = band.weight.data();
  const std::int32_t* cell = band.cell.data();
  for (std::int64_t k = 0; k < band.size; ++k) out[k] = w[k] * in[cell[k]];
  for (int t = 1; t < band.taps; ++t) {
    w += band.size, cell += band.size;
    for (std::int64_t k = 0; k < band.size; ++k) out[k] += w[k] * in[cell[k]];
  }
}

Band empty_band(std::int64_t size, int taps) {
  const auto n = static_cast<std::size_t>(size * taps);
  return {size, taps, std::vector<std::int32_t>(n), std::vector<float>(n), {}};
}

template <Padding P>
void linear_taps(Band& band, const SampledAxis<double>& axis, const std::vector<double>& at) {
  const std::int64_t n = band.size;
  for (std::int64_t i = 0; i < n; ++i) {
    band.cell[i] = linear_tap<P>(axis, at[i], band.weight[i], band.weight[n + i]);
    band.cell[n + i] = band.cell[i] + axis.step;
  }
}

template <Padding P>
void nearest_taps(std::vector<std::int32_t>& cell, const SampledAxis<double>& axis,
                  const std::vector<double>& at) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    std::int32_t inside;
    cell[i] = nearest_tap<P>(axis, at[i], inside);
    if (!inside) cell[i] = -1;
  }
}

}  // namespace

Band filter_axis(std::int64_t n, std::vector<float> weights) {
  Band band = empty_band(n, static_cast<int>(weights.size()));
  const std::int64_t reach = band.taps / 2;
  for (std::int64_t t = 0; t < band.taps; ++t)
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t from = i + t - reach;
      const bool inside = from >= 0 && from < n;
      band.cell[t * n + i] = inside ? static_cast<std::int32_t>(from) : 0;
      band.weight[t * n + i] = inside ? weights[t] : 0;
    }
  band.filter = std::move(weights);
  return band;
}

Band sample_axis(std::int64_t n, const std::vector<double>& at, Padding padding) {
  Band band = empty_band(static_cast<std::int64_t>(at.size()), 2);
  const auto axis = SampledAxis<double>::make(n, 1, false);
  if (padding == Padding::zeros) linear_taps<Padding::zeros>(band, axis, at);
  if (padding == Padding::border) linear_taps<Padding::border>(band, axis, at);
  if (padding == Padding::reflection) linear_taps<Padding::reflection>(band, axis, at);
  return band;
}

at::Tensor map_axes(const at::Tensor& volume, const Bands& bands, bool parallel,
                    const at::Tensor& into) {
  if (is_picture(volume, bands[2].size))
    return exchanged(
        map_axes(exchanged(volume), {bands[0], bands[2], bands[1]}, parallel, exchanged(into)));
  const at::Tensor source = kernels::float_image(volume);
  const Shape3 n = shape_of(source);
  const std::int64_t channels = source.size(0), nx = bands[0].size, ny = bands[1].size,
                     nz = bands[2].size;
  at::Tensor result = room(into, {channels, nx, ny, nz}, source.options());
  const float* in = source.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  const auto planes = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> plane(static_cast<std::size_t>(n[1] * n[2]));
    std::vector<float> row(static_cast<std::size_t>(n[2]));
    Taps x(bands[0].taps), y(bands[1].taps), z(bands[2].taps);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = begin; i < end; ++i) {
        const float* at =
            blend(bands[0], i, in + c * n[0] * n[1] * n[2], n[1] * n[2], x, plane.data());
        float* to = out + (c * nx + i) * ny * nz;
        for (std::int64_t j = 0; j < ny; ++j, to += nz)
          map_row(bands[2], blend(bands[1], j, at, n[2], y, row.data()), n[2], z, to);
      }
  };
  if (parallel)
    for_range(nx, true, planes);
  else
    team_for(nx, planes);
  return result;
}

std::vector<std::int32_t> pick_axis(std::int64_t n) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int32_t> nearest_axis(std::int64_t n, const std::vector<double>& at,
                                       Padding padding) {
  std::vector<std::int32_t> cell(at.size());
  const auto axis = SampledAxis<double>::make(n, 1, false);
  if (padding == Padding::zeros) nearest_taps<Padding::zeros>(cell, axis, at);
  if (padding == Padding::border) nearest_taps<Padding::border>(cell, axis, at);
  if (padding == Padding::reflection) nearest_taps<Padding::reflection>(cell, axis, at);
  return cell;
}

Band picked(const Band& band, const std::vector<std::int32_t>& voxels) {
  const auto n = static_cast<std::int64_t>(voxels.size());
  Band out = empty_band(n, band.taps);
  for (std::int64_t t = 0; t < band.taps; ++t)
    for (std::int64_t i = 0; i < n; ++i) {
      out.cell[t * n + i] = band.cell[t * band.size + voxels[i]];
      out.weight[t * n + i] = band.weight[t * band.size + voxels[i]];
    }
  return out;
}

at::Tensor pick(const at::Tensor& volume, const Picks& picks, double value, bool parallel,
                const at::Tensor& into) {
  if (is_picture(volume, static_cast<std::int64_t>(picks[2].size())) && picks[2][0] == 0)
    return exchanged(
        pick(exchanged(volume), {picks[0], picks[2], picks[1]}, value, parallel, exchanged(into)));
  const Shape3 n = shape_of(volume);
  const auto nx = static_cast<std::int64_t>(picks[0].size());
  const auto ny = static_cast<std::int64_t>(picks[1].size());
  const auto nz = static_cast<std::int64_t>(picks[2].size());
  const at::Tensor source = volume.contiguous();
  const at::Tensor result = room(into, {source.size(0), nx, ny, nz}, source.options());
  const at::Tensor fill = at::full({1}, value, source.options());
  for_word(source.element_size(), [&](auto word) {
    using Word = decltype(word);
    const auto* in = static_cast<const Word*>(source.const_data_ptr());
    auto* out = static_cast<Word*>(result.mutable_data_ptr());
    const Word nothing = *static_cast<const Word*>(fill.const_data_ptr());
    const auto planes = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t c = p / nx, x = picks[0][p % nx];
        Word* to = out + p * ny * nz;
        for (std::int64_t j = 0; j < ny; ++j, to += nz) {
          const std::int64_t y = picks[1][j];
          if (x < 0 || y < 0) {
            std::fill(to, to + nz, nothing);
            continue;
          }
          const Word* row = in + ((c * n[0] + x) * n[1] + y) * n[2];
          const std::int32_t* z = picks[2].data();
          for (std::int64_t k = 0; k < nz; ++k) to[k] = z[k] < 0 ? nothing : row[z[k]];
        }
      }
    };
    if (parallel)
      for_range(source.size(0) * nx, true, planes);
    else
      team_for(source.size(0) * nx, planes);
  });
  return result;
}

}  // namespace sluice
