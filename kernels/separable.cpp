#include "kernels/separable.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/float_image.h"
#include "kernels/inner_parallel.h"
#include "kernels/spatial.h"
#include "kernels/word.h"

namespace sluice {
namespace {

// sum_t weight[t][i] * in[cell[t][i] * length ...]: one line of the result, `length` floats long.
// Where one voxel is taken as it is, nothing is copied.
const float* blend(const Band& band, std::int64_t i, const float* in, std::int64_t length,
                   float* scratch) {
  if (band.keeps()) return in + i * length;
  bool begun = false;
  for (int t = 0; t < band.taps; ++t) {
    const float w = band.weight[t * band.size + i];
    if (w == 0) continue;
    const float* line = in + band.cell[t * band.size + i] * length;
    if (!begun && w == 1 && t + 1 == band.taps) return line;
    if (!begun)
      for (std::int64_t k = 0; k < length; ++k) scratch[k] = w * line[k];
    else
      for (std::int64_t k = 0; k < length; ++k) scratch[k] += w * line[k];
    begun = true;
  }
  if (!begun) std::fill(scratch, scratch + length, 0.0f);
  return scratch;
}

// The same along the row itself; `n` source voxels.
void map_row(const Band& band, const float* in, std::int64_t n, float* out) {
  if (band.keeps()) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  std::fill(out, out + band.size, 0.0f);
  const std::int64_t reach = static_cast<std::int64_t>(band.filter.size()) / 2;
  for (int t = 0; t < band.taps; ++t) {
    if (band.filter.empty()) {
      const float* w = band.weight.data() + t * band.size;
      const std::int32_t* cell = band.cell.data() + t * band.size;
      for (std::int64_t k = 0; k < band.size; ++k) out[k] += w[k] * in[cell[k]];
    } else {
      const std::int64_t shift = t - reach, from = std::max<std::int64_t>(-shift, 0);
      const std::int64_t to = std::min(n - shift, n);
      const float w = band.filter[t];
      for (std::int64_t k = from; k < to; ++k) out[k] += w * in[k + shift];
    }
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

at::Tensor map_axes(const at::Tensor& volume, const Bands& bands, bool parallel) {
  const at::Tensor source = kernels::float_image(volume);
  const Shape3 n = shape_of(source);
  const std::int64_t channels = source.size(0), nx = bands[0].size, ny = bands[1].size,
                     nz = bands[2].size;
  at::Tensor result = at::empty({channels, nx, ny, nz}, source.options());
  const float* in = source.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  for_range(nx, parallel, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> plane(static_cast<std::size_t>(n[1] * n[2]));
    std::vector<float> row(static_cast<std::size_t>(n[2]));
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = begin; i < end; ++i) {
        const float* at =
            blend(bands[0], i, in + c * n[0] * n[1] * n[2], n[1] * n[2], plane.data());
        float* to = out + (c * nx + i) * ny * nz;
        for (std::int64_t j = 0; j < ny; ++j, to += nz)
          map_row(bands[2], blend(bands[1], j, at, n[2], row.data()), n[2], to);
      }
  });
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

at::Tensor pick(const at::Tensor& volume, const Picks& picks, double value, bool parallel) {
  const Shape3 n = shape_of(volume);
  const auto nx = static_cast<std::int64_t>(picks[0].size());
  const auto ny = static_cast<std::int64_t>(picks[1].size());
  const auto nz = static_cast<std::int64_t>(picks[2].size());
  const at::Tensor source = volume.contiguous();
  const at::Tensor result = at::empty({source.size(0), nx, ny, nz}, source.options());
  const at::Tensor fill = at::full({1}, value, source.options());
  for_word(source.element_size(), [&](auto word) {
    using Word = decltype(word);
    const auto* in = static_cast<const Word*>(source.const_data_ptr());
    auto* out = static_cast<Word*>(result.mutable_data_ptr());
    const Word nothing = *static_cast<const Word*>(fill.const_data_ptr());
    for_range(source.size(0) * nx, parallel, [&](std::int64_t begin, std::int64_t end) {
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
    });
  });
  return result;
}

}  // namespace sluice
