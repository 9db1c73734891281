#include "kernels/net/direct_conv_winograd.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv_shape.h"

namespace sluice {
namespace {

constexpr std::int64_t sums = 6;             // of a tile
constexpr std::int64_t most_outputs = 4;     // of a tile
constexpr std::int64_t least_channels = 16;  // on either side
constexpr std::int64_t rows_at_once = 3
                                      << 14;  // numbers of one of six images: the cache holds them

// What a tile has with a kernel of so many numbers along x.
std::int64_t outputs_of_tile(std::int64_t kernel) { return sums + 1 - kernel; }
std::int64_t tiles_of(std::int64_t n, std::int64_t outputs) { return (n + outputs - 1) / outputs; }

// G of each row of a kernel, [out, in, z, y, x] -> six of [out, in, z, y, 1]: its values as a
// polynomial at 0, 1, -1, 2, -2 and infinity, divided by products of the points' differences.
std::vector<at::Tensor> kernel_sums(const at::Tensor& weight) {
  auto shape = weight.sizes().vec();
  const std::int64_t wide = std::exchange(shape.back(), 1);
  std::vector<at::Tensor> all;
  std::vector<float*> to;
  for (std::int64_t k = 0; k < sums; ++k) {
    all.push_back(at::empty(shape, at::kFloat));
    to.push_back(all.back().data_ptr<float>());
  }
  const auto* const weights = weight.const_data_ptr<float>();
  team_for(all[0].numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const w = weights + i * wide;
      float even[2] = {}, odd[2] = {}, power = 1;  // at 1 and at 2
      for (std::int64_t t = 0; t < wide; ++t, power *= 2) {
        (t % 2 ? odd : even)[0] += w[t];
        (t % 2 ? odd : even)[1] += power * w[t];
      }
      to[0][i] = w[0] / 4;
      to[1][i] = -(even[0] + odd[0]) / 6;
      to[2][i] = (odd[0] - even[0]) / 6;
      to[3][i] = (even[1] + odd[1]) / 24;
      to[4][i] = (even[1] - odd[1]) / 24;
      to[5][i] = w[wide - 1];
    }
  });
  return all;
}

// G' of six sums, each in the order of the weight that it is written to.
void kernel_of_sums(const std::vector<at::Tensor>& all, const at::Tensor& weight) {
  std::vector<const float*> m;
  for (const at::Tensor& one : all) m.push_back(one.const_data_ptr<float>());
  const std::int64_t wide = weight.size(-1);
  auto* const weights = weight.data_ptr<float>();
  team_for(all[0].numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const w = weights + i * wide;
      float power = 1;
      for (std::int64_t t = 0; t < wide; ++t, power *= 2) {
        const float sign = t % 2 ? -1.F : 1.F;
        w[t] = power * (m[3][i] + sign * m[4][i]) / 24 - (m[1][i] + sign * m[2][i]) / 6;
      }
      w[0] += m[0][i] / 4;
      w[wide - 1] += m[5][i];
    }
  });
}

// Six images in one piece of memory, each [1, channels, z, y, tiles] with channels last, for a row
// of `width` outputs.
struct Images {
  std::int64_t outputs, tiles, channels;
  at::Tensor all;  // [6, channels, z, y, tiles]
  std::int64_t row, of_one;
  Images(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t width, std::int64_t of_tile)
      : outputs(of_tile),
        tiles(tiles_of(width, of_tile)),
        channels(c),
        all(at::empty({sums, c, z, y, tiles}, at::kFloat, at::MemoryFormat::ChannelsLast3d)),
        row(tiles * c),
        of_one(z * y * row) {}
  float* at_row(std::int64_t r) const { return all.data_ptr<float>() + r * row; }
  at::Tensor one(std::int64_t k) const { return all.narrow(0, k, 1); }
};

// One sample, channels last; or, with `all`, all of them as one with more planes.
struct Sample {
  float* data;
  Size3 size;
  std::int64_t channels;
  Sample(const at::Tensor& t, std::int64_t n, bool all)
      : data(static_cast<float*>(t.data_ptr()) + n * (t.numel() / t.size(0))),
        size(spatial(t)),
        channels(t.size(1)) {
    if (all) size[0] *= t.size(0);
  }
  float* at_row(std::int64_t z, std::int64_t y) const {
    return data + (z * size[1] + y) * size[2] * channels;
  }
};

// The sums of one row of images: of(to, k, tile, first position along x) writes them.
template <class Of>
SLUICE_INLINE inline void each_tile(const Images& images, std::int64_t row, const Of& of) {
  for (std::int64_t t = 0; t < images.tiles; ++t)
    of(images.at_row(row) + t * images.channels, t * images.outputs);
}

// B' of positions x .. x + 5 of a row, where those outside of it are zero.
void input_sums(const Images& images, std::int64_t to_row, const Sample& s, std::int64_t z,
                std::int64_t y, std::int64_t pad) {
  const std::int64_t C = s.channels, n = images.of_one;
  if (z < 0 || z >= s.size[0] || y < 0 || y >= s.size[1]) {
    for (std::int64_t k = 0; k < sums; ++k)
      std::fill_n(images.at_row(to_row) + k * n, images.row, 0.F);
    return;
  }
  const float* const row = s.at_row(z, y);
  const std::vector<float> zeros(C);
  simd([&]() SLUICE_INLINE {
    each_tile(images, to_row, [&](float* to, std::int64_t first) SLUICE_INLINE {
      const float* d[sums];
      for (std::int64_t i = 0; i < sums; ++i) {
        const std::int64_t x = first + i - pad;
        d[i] = x >= 0 && x < s.size[2] ? row + x * C : zeros.data();
      }
      each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
        const V d0 = load<V>(d[0] + c), d1 = load<V>(d[1] + c), d2 = load<V>(d[2] + c),
                d3 = load<V>(d[3] + c), d4 = load<V>(d[4] + c), d5 = load<V>(d[5] + c);
        const V a = d4 - d2 * 4.F, b = d3 - d1 * 4.F, e = d4 - d2, f = (d3 - d1) * 2.F;
        store(to + c, d0 * 4.F - d2 * 5.F + d4);
        store(to + n + c, a + b);
        store(to + 2 * n + c, a - b);
        store(to + 3 * n + c, e + f);
        store(to + 4 * n + c, e - f);
        store(to + 5 * n + c, d1 * 4.F - d3 * 5.F + d5);
      });
    });
  });
}

// A of a tile's positions, from x on.
void output_sums(const Images& images, std::int64_t to_row, const Sample& s, std::int64_t z,
                 std::int64_t y) {
  const std::int64_t C = s.channels, n = images.of_one;
  const float* const row = s.at_row(z, y);
  const std::vector<float> zeros(C);
  simd([&]() SLUICE_INLINE {
    each_tile(images, to_row, [&](float* to, std::int64_t first) SLUICE_INLINE {
      const float* g[most_outputs];
      for (std::int64_t i = 0; i < most_outputs; ++i)
        g[i] = i < images.outputs && first + i < s.size[2] ? row + (first + i) * C : zeros.data();
      const float* const last = g[images.outputs - 1];
      each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
        const V g0 = load<V>(g[0] + c), g1 = load<V>(g[1] + c), g2 = load<V>(g[2] + c),
                g3 = load<V>(g[3] + c);
        const V even = g0 + g2, odd = g1 + g3, even2 = g0 + g2 * 4.F, odd2 = g1 * 2.F + g3 * 8.F;
        store(to + c, g0);
        store(to + n + c, even + odd);
        store(to + 2 * n + c, even - odd);
        store(to + 3 * n + c, even2 + odd2);
        store(to + 4 * n + c, even2 - odd2);
        store(to + 5 * n + c, load<V>(last + c));
      });
    });
  });
}

// A' of a row of sums, and what is added to each output.
void outputs_of(const Images& images, std::int64_t from_row, const float* bias,
                const float* residual, float* to, std::int64_t width) {
  const std::int64_t C = images.channels, n = images.of_one;
  simd([&]() SLUICE_INLINE {
    each_tile(images, from_row, [&](const float* m, std::int64_t first) SLUICE_INLINE {
      const std::int64_t last = images.outputs - 1, real = std::min(last + 1, width - first);
      each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
        const V m1 = load<V>(m + n + c), m2 = load<V>(m + 2 * n + c), m3 = load<V>(m + 3 * n + c),
                m4 = load<V>(m + 4 * n + c);
        const V s = m1 + m2, d = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
        V y[most_outputs] = {load<V>(m + c) + s + s2, d + d2 * 2.F, s + s2 * 4.F, d + d2 * 8.F};
        y[last] += load<V>(m + 5 * n + c);
        for (std::int64_t i = 0; i < most_outputs; ++i) {
          if (i >= real) break;
          const std::int64_t at = (first + i) * C + c;
          if (bias) y[i] += load<V>(bias + c);
          if (residual) y[i] += load<V>(residual + at);
          store(to + at, y[i]);
        }
      });
    });
  });
}

// body(k) for the six sums, each by one thread where that leaves none without work.
template <class Body>
void each_sum(const Body& body) {
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) body(k);
  };
  if (sums % team_size() == 0)
    team_for(sums, some);
  else
    some(0, sums);
}

// That of each of the six images, which have their borders.
ConvSpec of_images(const ConvSpec& spec, bool adjoint) {
  const Size3 k = three(spec.kernel, 1);
  ConvSpec s;
  s.in = adjoint ? spec.out : spec.in;
  s.out = adjoint ? spec.in : spec.out;
  s.kernel = {k[0], k[1], 1};
  s.stride = {1, 1, 1};
  s.padding = s.output_padding = {0, 0, 0};
  return s;
}

// Some rows of some planes.
struct Slab {
  std::int64_t z, planes, y, rows;
  std::int64_t size() const { return planes * rows; }
};

// Outputs by slabs whose six images the cache holds: body(slab, the images of what it is made of,
// with their borders). Whole planes where four of them are not too many.
template <class Body>
void each_slab(const Sample& in, const Size3& out, const Size3& kernel, const Size3& pad,
               const Body& body) {
  const std::int64_t of_tile = outputs_of_tile(kernel[2]), tiles = tiles_of(out[2], of_tile),
                     most = std::max<std::int64_t>(1, rows_at_once / (tiles * in.channels));
  const std::int64_t deep = std::min<std::int64_t>(out[0], kernel[0] == 1 ? 1 : 4),
                     rows = std::clamp<std::int64_t>(most / deep, std::min<std::int64_t>(8, out[1]),
                                                     out[1]),
                     planes = rows < out[1] ? deep : std::max(deep, most / rows),
                     zs = (out[0] + planes - 1) / planes, ys = (out[1] + rows - 1) / rows;
  for (std::int64_t i = 0; i < zs * ys; ++i) {
    Slab s{out[0] * (i / ys) / zs, 0, out[1] * (i % ys) / ys, 0};
    s.planes = out[0] * (i / ys + 1) / zs - s.z;
    s.rows = out[1] * (i % ys + 1) / ys - s.y;
    const Slab from{s.z - pad[0], s.planes + kernel[0] - 1, s.y - pad[1], s.rows + kernel[1] - 1};
    const Images images(in.channels, from.planes, from.rows, out[2], of_tile);
    team_for(from.size(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        input_sums(images, r, in, from.z + r / from.rows, from.y + r % from.rows, pad[2]);
    });
    body(s, images);
  }
}

}  // namespace

bool winograd_fits(const ConvSpec& spec, at::ScalarType type) {
  const auto ones = [](const std::vector<std::int64_t>& v) {
    return std::all_of(v.begin(), v.end(), [](std::int64_t n) { return n == 1; });
  };
  return type == at::kFloat && !spec.transposed && spec.groups == 1 && ones(spec.stride) &&
         spec.kernel.back() >= 3 && spec.kernel.back() <= 5 && spec.kernel.size() > 1 &&
         std::min(spec.in, spec.out) >= least_channels;
}

bool is_dense(const at::Tensor& weight) {
  return at::count_nonzero(weight).item<std::int64_t>() * 10 > weight.numel() * 7;
}

WinogradGather::WinogradGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                               Products products)
    : kernel_(three(spec.kernel, 1)), pad_(three(spec.padding, 0)) {
  at::Tensor w = weight.detach().to(at::kFloat);
  if (adjoint) {
    for (int d = 0; d < 3; ++d) pad_[d] = kernel_[d] - 1 - pad_[d];
    w = w.transpose(0, 1).flatten(2).flip(2);
  }
  w = w.reshape({w.size(0), w.size(1), kernel_[0], kernel_[1], kernel_[2]}).contiguous();
  for (const at::Tensor& one : kernel_sums(w))
    of_.emplace_back(of_images(spec, adjoint), one, false, products, at::kFloat);
}

void WinogradGather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                         at::Tensor& out) const {
  const float* const b = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  const bool flat = kernel_[0] == 1 && pad_[0] == 0;
  for (std::int64_t n = 0; n < (flat ? 1 : in.size(0)); ++n) {
    const Sample to(out, n, flat);
    const float* const more = residual.defined() ? Sample(residual, n, flat).data : nullptr;
    each_slab(
        Sample(in, n, flat), to.size, kernel_, pad_, [&](const Slab& s, const Images& images) {
          const Images made(to.channels, s.planes, s.rows, to.size[2], outputs_of_tile(kernel_[2]));
          each_sum([&](std::int64_t k) {
            at::Tensor one = made.one(k);
            of_[k].run(images.one(k), {}, {}, one);
          });
          team_for(s.size(), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
              float* const row = to.at_row(s.z + r / s.rows, s.y + r % s.rows);
              outputs_of(made, r, b, more ? more + (row - to.data) : nullptr, row, to.size[2]);
            }
          });
        });
  }
}

at::Tensor winograd_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                Products products) {
  const ConvSpec inner = of_images(spec, false);
  const Size3 kernel = three(spec.kernel, 1), pad = three(spec.padding, 0);
  const bool flat = kernel[0] == 1 && pad[0] == 0;
  std::vector<at::Tensor> all(sums);
  for (std::int64_t n = 0; n < (flat ? 1 : x.size(0)); ++n) {
    const Sample out(grad, n, flat);
    each_slab(Sample(x, n, flat), out.size, kernel, pad, [&](const Slab& s, const Images& images) {
      const Images there(out.channels, s.planes, s.rows, out.size[2], outputs_of_tile(kernel[2]));
      team_for(s.size(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
          output_sums(there, r, out, s.z + r / s.rows, s.y + r % s.rows);
      });
      each_sum([&](std::int64_t k) {
        const at::Tensor one = direct_weight_grad(inner, images.one(k), there.one(k), products);
        all[k] = all[k].defined() ? all[k].add_(one) : one;
      });
    });
  }
  const at::Tensor weight = at::empty(weight_shape(spec), at::kFloat);
  kernel_of_sums(all, weight);
  return weight;
}

}  // namespace sluice
