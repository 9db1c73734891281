#include "kernels/net/direct_conv_winograd.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/winograd_axis.h"

namespace sluice {
namespace {

using winograd::most_outputs, winograd::outputs_of_tile;

constexpr std::int64_t side = winograd::sums, sums = side * side;  // of a tile
constexpr std::int64_t least_channels = 16;                        // on either side
constexpr std::int64_t cached = 300'000;  // numbers of images that the cache holds
// When sums are quicker than products in full (tools/bench/convolutions.cpp). A list of a weight's
// vectors takes as long where that share of them is kept. A kernel's sums are several times its
// numbers, and each is made once a step and read once an image, its gradient's summed once an
// image: few outputs do not pay for that.
struct Threshold {
  double kept, of_weights;    // of vectors; outputs that pay for one more time all of them
  std::int64_t for_gradient;  // outputs
};
Threshold threshold(at::ScalarType type, Products p) {
  if (type == at::kFloat) return {0.15, 60, 0};
  return p == Products::pairs ? Threshold{0.7, 200, 700} : Threshold{0.15, 60, 300};
}

std::int64_t vectors_of(std::int64_t channels) { return (channels + 15) / 16; }

// Planes that do not meet: samples are done as one.
bool is_flat(const ConvSpec& spec) {
  return three(spec.kernel, 1)[0] == 1 && three(spec.padding, 0)[0] == 0;
}

// Sums are numbers of float32, whatever the images are of.
Products of_numbers(Products p) { return p == Products::avx2 ? p : Products::avx512; }
// Whether no instruction at hand multiplies so many numbers of the type at once that all products
// take less time than a quarter of them as float32: pairs come to twice as many, tiles to eight
// times.
bool quicker_as_numbers(at::ScalarType type, Products p) {
  return type == at::kFloat || (type == at::kBFloat16 && p != Products::tiles);
}

// Some of a kernel's numbers along an axis.
struct Taps {
  std::int64_t first, count;
};
std::vector<Taps> parts_of(std::int64_t kernel) {
  const std::int64_t parts = kernel <= winograd::most_kernel ? 1 : (kernel + 3) / 4;
  std::vector<Taps> all;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t first = kernel * i / parts;
    all.push_back({first, kernel * (i + 1) / parts - first});
  }
  return all;
}

// body(the convolution with some of the kernel's numbers along y and x; those of a weight of all).
template <class Body>
void each_part(const ConvSpec& spec, const Body& body) {
  const std::size_t y = spec.kernel.size() - 2, x = y + 1;
  const Size3 dilation = dilation_of(spec);
  for (const Taps& down : parts_of(spec.kernel[y]))
    for (const Taps& across : parts_of(spec.kernel[x])) {
      ConvSpec part = spec;
      part.kernel[y] = down.count;
      part.kernel[x] = across.count;
      part.padding[y] -= down.first * dilation[1];
      part.padding[x] -= across.first * dilation[2];
      body(part, [=](const at::Tensor& weight) {
        return weight.narrow(-2, down.first, down.count).narrow(-1, across.first, across.count);
      });
    }
}

// The share of a weight's vectors, 16 outputs of one input and position, that are not zero.
double vectors_kept(const at::Tensor& weight) {
  const at::Tensor w = weight.detach().to(at::kFloat).contiguous();
  const std::int64_t outputs = w.size(0), of_one = w.numel() / outputs;
  std::int64_t kept = 0;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(of_one));
  for (std::int64_t first = 0; first < outputs; first += 16) {
    std::fill(bits.begin(), bits.end(), 0U);
    for (std::int64_t o = first; o < std::min(outputs, first + 16); ++o) {
      const float* const numbers = w.const_data_ptr<float>() + o * of_one;
      for (std::size_t i = 0; i < bits.size(); ++i)
        bits[i] |= std::bit_cast<std::uint32_t>(numbers[i]) << 1;  // without its sign
    }
    kept += std::count_if(bits.begin(), bits.end(), [](std::uint32_t b) { return b != 0; });
  }
  return static_cast<double>(kept) / static_cast<double>(vectors_of(outputs) * of_one);
}

// One sample, channels last; or, with `all`, all of them as one with more planes. Of its channels
// those of one group of so many.
template <class T>
struct Sample {
  T* data;
  Size3 size;
  std::int64_t channels, step;  // the group's; from one position to the next
  Sample(const at::Tensor& t, std::int64_t n, bool all, std::int64_t channels, std::int64_t group)
      : data(static_cast<T*>(t.data_ptr()) + n * (t.numel() / t.size(0)) + group * channels),
        size(spatial(t)),
        channels(channels),
        step(t.size(1)) {
    if (all) size[0] *= t.size(0);
  }
  T* at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return data + ((z * size[1] + y) * size[2] + x) * step;
  }
};

// The tiles of a plane of outputs. A dilated kernel sees as many images as its dilation, each of
// every so many rows and columns: their tiles stand side by side.
struct Grid {
  Size3 kernel, pad, dilation, out;
  std::int64_t out_y, out_x;  // outputs of a tile
  std::int64_t rows, across;  // tiles
  Grid(const Size3& k, const Size3& p, const Size3& d, const Size3& size)
      : kernel(k),
        pad(p),
        dilation(d),
        out(size),
        out_y(outputs_of_tile(k[1])),
        out_x(outputs_of_tile(k[2])),
        rows(tiles(1, out_y)),
        across(tiles(2, out_x)) {}
  std::int64_t depth() const { return (kernel[0] - 1) * dilation[0] + 1; }  // planes that one reads
  // The first output of a row or column of tiles; the next is `dilation` farther.
  std::int64_t first_y(std::int64_t row) const { return first(row, out_y, dilation[1]); }
  std::int64_t first_x(std::int64_t column) const { return first(column, out_x, dilation[2]); }
  // How many of a tile's outputs lie in the image.
  std::int64_t real_y(std::int64_t row) const { return real(first_y(row), out_y, 1); }
  std::int64_t real_x(std::int64_t column) const { return real(first_x(column), out_x, 2); }

 private:
  std::int64_t tiles(int axis, std::int64_t of_tile) const {
    const std::int64_t d = dilation[axis], of_image = (out[axis] + d - 1) / d;
    return d * ((of_image + of_tile - 1) / of_tile);
  }
  static std::int64_t first(std::int64_t tile, std::int64_t of_tile, std::int64_t d) {
    return tile / d * of_tile * d + tile % d;
  }
  std::int64_t real(std::int64_t at, std::int64_t of_tile, int axis) const {
    const std::int64_t d = dilation[axis];
    return std::clamp<std::int64_t>((out[axis] - at + d - 1) / d, 0, of_tile);
  }
};

// 36 images in one piece of memory, [plane][tile][number] each. Not a multiple of a page apart:
// the same number of all images would meet in one set of the cache.
struct Images {
  std::int64_t numbers, of_one;  // of a tile; of an image
  Buffer<float> all;
  Images(std::int64_t tiles, std::int64_t of_tile)
      : numbers(of_tile), of_one((tiles * of_tile + 1023) / 1024 * 1024 + 16), all(sums * of_one) {}
  float* at(std::int64_t sum, std::int64_t tile) const {
    return all.data() + sum * of_one + tile * numbers;
  }
};

// Planes [z, z + planes) of outputs, of the rows [row, row + rows) of tiles.
struct Chunk {
  std::int64_t z, planes, row, rows;
  std::int64_t tiles;  // of a plane
};

// ---- sums of tiles ------------------------------------------------------------------------------

// body(outputs of a tile along y, along x), which the compiler knows for the commonest kernel.
template <class Body>
SLUICE_INLINE inline void with_outputs(const Grid& g, const Body& body) {
  constexpr std::integral_constant<std::int64_t, 4> four;
  if (g.out_y == 4 && g.out_x == 4)
    body(four, four);
  else
    body(g.out_y, g.out_x);
}

// A row of tiles of the input's sums; what lies outside of the sample is zero.
template <class T>
void input_sums(const Images& images, std::int64_t first_tile, const Sample<T>& s, const Grid& g,
                std::int64_t z, std::int64_t row) {
  const std::int64_t C = s.channels, n = images.of_one, tiles = g.across;
  if (z < 0 || z >= s.size[0]) {
    for (std::int64_t k = 0; k < sums; ++k) std::fill_n(images.at(k, first_tile), tiles * C, 0.F);
    return;
  }
  const std::vector<T> zeros(static_cast<std::size_t>(C));
  const auto tile = [&](float* to, const auto& from) SLUICE_INLINE {
    each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
      V half[side][side];  // [sum][x]
#pragma GCC unroll 6
      for (std::int64_t j = 0; j < side; ++j) {
        V d[side], along_y[side];
#pragma GCC unroll 6
        for (std::int64_t i = 0; i < side; ++i) d[i] = load<V>(from(i, j) + c);
        winograd::of_inputs(d, along_y);
#pragma GCC unroll 6
        for (std::int64_t i = 0; i < side; ++i) half[i][j] = along_y[i];
      }
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < side; ++i) {
        V made[side];
        winograd::of_inputs(half[i], made);
#pragma GCC unroll 6
        for (std::int64_t j = 0; j < side; ++j) store(to + (i * side + j) * n + c, made[j]);
      }
    });
  };
  const std::int64_t dy = g.dilation[1], dx = g.dilation[2], y0 = g.first_y(row) - g.pad[1],
                     row_step = dy * s.size[2] * s.step, column_step = dx * s.step;
  const bool rows_inside = y0 >= 0 && y0 + (side - 1) * dy < s.size[1];
  simd([&]() SLUICE_INLINE {
    for (std::int64_t t = 0; t < tiles; ++t) {
      float* const to = images.at(0, first_tile + t);
      const std::int64_t x0 = g.first_x(t) - g.pad[2];
      if (rows_inside && x0 >= 0 && x0 + (side - 1) * dx < s.size[2]) {
        const T* const first = s.at(z, y0, x0);
        tile(to, [=](std::int64_t i, std::int64_t j)
                     SLUICE_INLINE { return first + i * row_step + j * column_step; });
        continue;
      }
      tile(to, [&](std::int64_t i, std::int64_t j) SLUICE_INLINE {
        const std::int64_t y = y0 + i * dy, x = x0 + j * dx;
        const bool inside = y >= 0 && y < s.size[1] && x >= 0 && x < s.size[2];
        return inside ? s.at(z, y, x) : zeros.data();
      });
    }
  });
}

// A row of tiles of outputs, of their sums, and what is added to each output.
template <class O, class T>
void outputs_of(const Images& images, std::int64_t first_tile, const Sample<O>& s, const Grid& g,
                std::int64_t z, std::int64_t row, const float* bias, const T* residual, bool adds) {
  const std::int64_t C = s.channels, n = images.of_one, y0 = g.first_y(row), rows = g.real_y(row),
                     row_step = g.dilation[1] * g.out[2] * s.step,
                     column_step = g.dilation[2] * s.step;
  if (rows == 0) return;
  simd([&]() SLUICE_INLINE {
    with_outputs(g, [&](auto out_y, auto out_x) SLUICE_INLINE {
      for (std::int64_t t = 0; t < g.across; ++t) {
        const std::int64_t columns = g.real_x(t);
        const float* const from = images.at(0, first_tile + t);
        const std::int64_t first = s.at(z, y0, g.first_x(t)) - s.data;
        each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
          V half[most_outputs][side];  // [y][sum]
#pragma GCC unroll 6
          for (std::int64_t j = 0; j < side; ++j) {
            V m[side], along_y[most_outputs];
#pragma GCC unroll 6
            for (std::int64_t i = 0; i < side; ++i) m[i] = load<V>(from + (i * side + j) * n + c);
            winograd::to_outputs(m, out_y - 1, along_y);
#pragma GCC unroll 4
            for (std::int64_t i = 0; i < most_outputs; ++i) half[i][j] = along_y[i];
          }
          const V more = bias ? load<V>(bias + c) : V{};
#pragma GCC unroll 4
          for (std::int64_t i = 0; i < most_outputs; ++i) {
            if (i >= rows) break;
            V y[most_outputs];
            winograd::to_outputs(half[i], out_x - 1, y);
            const std::int64_t at = first + i * row_step + c;
#pragma GCC unroll 4
            for (std::int64_t j = 0; j < most_outputs; ++j) {
              if (j >= columns) break;
              y[j] += more;
              if (residual) y[j] += load<V>(residual + at + j * column_step);
              if (adds) y[j] += load<V>(s.data + at + j * column_step);
              store(s.data + at + j * column_step, y[j]);
            }
          }
        });
      }
    });
  });
}

// A gradient of outputs as products with its sums read it: 16 channels of a vector, as many vectors
// side by side as the products take, then the next tile.
struct Lanes {
  std::int64_t channels, vectors, together, tiles;
  std::int64_t width(std::int64_t vector) const {
    return std::min(together, vectors - vector / together * together);
  }
  std::int64_t at(std::int64_t tile, std::int64_t vector) const {
    const std::int64_t group = vector / together * together;
    return 16 * (group * tiles + tile * width(vector) + vector - group);
  }
};

// A row of tiles of the sums of outputs' gradients.
template <class T>
void output_sums(const Images& images, const Lanes& lanes, std::int64_t first_tile,
                 const Sample<T>& s, const Grid& g, std::int64_t z, std::int64_t row) {
  const std::int64_t C = s.channels, n = images.of_one, y0 = g.first_y(row), rows = g.real_y(row);
  const std::vector<T> zeros(static_cast<std::size_t>(C));
  simd([&]() SLUICE_INLINE {
    with_outputs(g, [&](auto out_y, auto out_x) SLUICE_INLINE {
      for (std::int64_t t = 0; t < g.across; ++t) {
        const std::int64_t x0 = g.first_x(t), columns = g.real_x(t);
        const T* from[most_outputs][most_outputs];
        for (std::int64_t i = 0; i < most_outputs; ++i)
          for (std::int64_t j = 0; j < most_outputs; ++j)
            from[i][j] = i < rows && j < columns
                             ? s.at(z, y0 + i * g.dilation[1], x0 + j * g.dilation[2])
                             : zeros.data();
        each(C, [&]<class V>(V, std::int64_t c) SLUICE_INLINE {
          float* const to = images.all.data() + lanes.at(first_tile + t, c / 16) + c % 16;
          V half[side][most_outputs];  // [sum][x]
#pragma GCC unroll 4
          for (std::int64_t j = 0; j < most_outputs; ++j) {
            V d[most_outputs], along_y[side];
#pragma GCC unroll 4
            for (std::int64_t i = 0; i < most_outputs; ++i) d[i] = load<V>(from[i][j] + c);
            winograd::of_outputs(d, out_y - 1, along_y);
#pragma GCC unroll 6
            for (std::int64_t i = 0; i < side; ++i) half[i][j] = along_y[i];
          }
#pragma GCC unroll 6
          for (std::int64_t i = 0; i < side; ++i) {
            V made[side];
            winograd::of_outputs(half[i], out_x - 1, made);
#pragma GCC unroll 6
            for (std::int64_t j = 0; j < side; ++j) store(to + (i * side + j) * n, made[j]);
          }
        });
      }
    });
  });
}

// ---- chunks -------------------------------------------------------------------------------------

// Planes of the input's images, of which the last ones are there: a ring.
class Ring {
 public:
  Ring(std::int64_t planes, std::int64_t depth) : slots_(planes + depth - 1) {}
  std::int64_t slots() const { return slots_; }
  std::int64_t slot(std::int64_t plane) const { return plane % slots_; }
  // Runs of a chunk's planes whose slots follow each other for every position of the kernel.
  std::int64_t run(const Chunk& c, std::int64_t depth) const {
    return slot(c.z) + c.planes + depth - 1 <= slots_ ? c.planes : 1;
  }

 private:
  std::int64_t slots_;
};

// How many rows of tiles and planes a chunk has. Weights are read once a chunk: what they are in
// bytes should not exceed what its images are, nor its images what the cache holds.
Chunk largest_chunk(const Grid& g, std::int64_t in, std::int64_t out) {
  const std::int64_t wanted = std::max<std::int64_t>(48, g.kernel[0] * in * out / (in + out));
  const auto numbers = [&](std::int64_t rows, std::int64_t planes) {
    return sums * rows * g.across * (in * (planes + g.depth() - 1) + out * planes);
  };
  const auto even = [](std::int64_t n, std::int64_t most) {
    const std::int64_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
  };
  std::int64_t rows = g.rows, planes = 1;
  while (rows > 1 && numbers(rows, 1) > cached && rows * g.across > wanted) --rows;
  rows = even(g.rows, rows);
  while (planes < g.out[0] &&
         (numbers(rows, planes + 1) <= cached || planes * rows * g.across < wanted))
    ++planes;
  return {0, even(g.out[0], planes), 0, rows, rows * g.across};
}

// body(chunk, the input's images, where its planes are).
template <class T, class Body>
void each_chunk(const Sample<T>& in, const Grid& g, const Chunk& most, const Body& body) {
  const std::int64_t depth = g.depth();
  const Ring ring(most.planes, depth);
  const Images images(ring.slots() * most.tiles, in.channels);
  for (std::int64_t row = 0; row < g.rows; row += most.rows) {
    const std::int64_t rows = std::min(most.rows, g.rows - row), tiles = rows * g.across;
    std::int64_t made = 0;
    for (std::int64_t z = 0; z < g.out[0]; z += most.planes) {
      const Chunk c{z, std::min(most.planes, g.out[0] - z), row, rows, tiles};
      const std::int64_t end = z + c.planes + depth - 1;
      team_for((end - made) * rows, [&](std::int64_t begin, std::int64_t finish) {
        for (std::int64_t i = begin; i < finish; ++i) {
          const std::int64_t plane = made + i / rows, r = i % rows;
          input_sums(images, ring.slot(plane) * tiles + r * g.across, in, g, plane - g.pad[0],
                     row + r);
        }
      });
      made = end;
      body(c, images, ring);
    }
  }
}

}  // namespace

bool winograd_fits(const ConvSpec& spec, at::ScalarType type, Products products) {
  const auto ones = [](const std::vector<std::int64_t>& v) {
    return std::all_of(v.begin(), v.end(), [](std::int64_t n) { return n == 1; });
  };
  const Size3 kernel = three(spec.kernel, 1);
  return quicker_as_numbers(type, products) && !spec.transposed && spec.groups == 1 &&
         ones(spec.stride) && std::min(kernel[1], kernel[2]) >= 3 &&
         std::min(spec.in, spec.out) >= least_channels;
}

bool winograd_pays(const ConvSpec& spec, at::ScalarType type, Products products,
                   const at::Tensor& weight, at::IntArrayRef out) {
  if (!winograd_fits(spec, type, products)) return false;
  if (is_dilated(spec)) return true;  // nothing else is
  const std::int64_t outputs =
      out.empty() ? 1 << 30 : c10::multiply_integers(out) / out[0] / out[1];
  const double kept = weight.defined() ? vectors_kept(weight) : 1;
  const Threshold t = threshold(type, products);
  return kept > t.kept + t.of_weights / static_cast<double>(outputs);
}

bool winograd_grad_pays(const ConvSpec& spec, const at::Tensor& grad, Products products) {
  const at::ScalarType type = grad.scalar_type();
  if (!winograd_fits(spec, type, products)) return false;
  if (is_dilated(spec)) return true;
  const std::int64_t samples = is_flat(spec) ? 1 : grad.size(0);
  return grad.numel() / grad.size(1) / samples >= threshold(type, products).for_gradient;
}

// ---- forward ------------------------------------------------------------------------------------

WinogradGather::WinogradGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                               Products products, at::ScalarType type)
    : out_channels_(adjoint ? spec.in : spec.out) {
  each_part(spec, [&](const ConvSpec& part, const auto& of_weight) {
    parts_.emplace_back(part, of_weight(weight), adjoint, products, type);
  });
}

// Parts are added up as float32.
void WinogradGather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                         at::Tensor& out, std::int64_t group) const {
  const bool in_place = parts_.size() == 1 || out.scalar_type() == at::kFloat;
  at::Tensor sum = in_place ? out : at::empty_like(out, out.options().dtype(at::kFloat));
  for (const Part& part : parts_) {
    const bool first = &part == parts_.data();
    part.run(in, first ? bias : at::Tensor(), first ? residual : at::Tensor(), sum, group, !first);
  }
  const auto of_group = [&](const at::Tensor& t) {
    return t.narrow(1, group * out_channels_, out_channels_);
  };
  if (!in_place) of_group(out).copy_(of_group(sum));
}

WinogradGather::Part::Part(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                           Products products, at::ScalarType type)
    : products_(of_numbers(products)),
      kernel_(three(spec.kernel, 1)),
      pad_(three(spec.padding, 0)),
      dilation_(dilation_of(spec)),
      in_channels_(adjoint ? spec.out : spec.in),
      out_channels_(adjoint ? spec.in : spec.out),
      of_one_(vectors_of(out_channels_) * kernel_[0] * in_channels_ * 16),
      weights_(sums * of_one_) {
  if (adjoint)
    for (int d = 0; d < 3; ++d) pad_[d] = (kernel_[d] - 1) * dilation_[d] - pad_[d];
  pack(weight.detach().to(type).to(at::kFloat).contiguous(), adjoint);
}

// 16 outputs' kernels of one input at a time. Seen from the output's gradient, a kernel is turned
// round.
void WinogradGather::Part::pack(const at::Tensor& weight, bool adjoint) {
  const std::int64_t plane = kernel_[1] * kernel_[2], volume = kernel_[0] * plane, C = in_channels_,
                     vectors = vectors_of(out_channels_),
                     together = micro_tile_of(products_).vectors;
  const std::int64_t to_next_in = adjoint ? out_channels_ * volume : volume,
                     to_next_out = adjoint ? volume : C * volume;
  const float* const from = weight.const_data_ptr<float>();
  team_for(vectors * C, [&](std::int64_t begin, std::int64_t end) {
    const Buffer<std::uint32_t> turned(volume * 16);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t vector = i / C, c = i % C, group = vector / together * together,
                         width = std::min(together, vectors - group);
      kernels_in_lanes(from + c * to_next_in + vector * 16 * to_next_out, to_next_out,
                       std::min<std::int64_t>(16, out_channels_ - vector * 16), volume, false,
                       turned.data());
      const auto* const lanes = reinterpret_cast<const float*>(turned.data());
      simd([&]() SLUICE_INLINE {
        for (std::int64_t z = 0; z < kernel_[0]; ++z) {
          const auto number = [&](std::int64_t y, std::int64_t x) SLUICE_INLINE {
            const std::int64_t k = (z * kernel_[1] + y) * kernel_[2] + x;
            return load<F16>(lanes + 16 * (adjoint ? volume - 1 - k : k));
          };
          F16 half[winograd::most_kernel][side];  // [y][sum]
          for (std::int64_t y = 0; y < kernel_[1]; ++y) {
            F16 w[winograd::most_kernel];
            for (std::int64_t x = 0; x < kernel_[2]; ++x) w[x] = number(y, x);
            winograd::of_kernel(w, kernel_[2], half[y]);
          }
          float* const to = weights_.data() + 16 * ((group * kernel_[0] + z * width) * C +
                                                    c * width + vector - group);
          for (std::int64_t j = 0; j < side; ++j) {
            F16 w[winograd::most_kernel], made[side];
            for (std::int64_t y = 0; y < kernel_[1]; ++y) w[y] = half[y][j];
            winograd::of_kernel(w, kernel_[1], made);
            for (std::int64_t k = 0; k < side; ++k) store(to + (k * side + j) * of_one_, made[k]);
          }
        }
      });
    }
  });
}

void WinogradGather::Part::run(const at::Tensor& in, const at::Tensor& bias,
                               const at::Tensor& residual, at::Tensor& out, std::int64_t group,
                               bool adds) const {
  if (in.scalar_type() == at::kFloat)
    run_as<float, float>(in, bias, residual, out, group, adds);
  else if (out.scalar_type() == at::kFloat)
    run_as<Bf16Bits, float>(in, bias, residual, out, group, adds);
  else
    run_as<Bf16Bits, Bf16Bits>(in, bias, residual, out, group, adds);
}

template <class T, class O>
void WinogradGather::Part::run_as(const at::Tensor& in, const at::Tensor& bias,
                                  const at::Tensor& residual, at::Tensor& out, std::int64_t group,
                                  bool adds) const {
  const bool flat = kernel_[0] == 1 && pad_[0] == 0;
  const float* const b =
      bias.defined() ? bias.const_data_ptr<float>() + group * out_channels_ : nullptr;
  const std::int64_t C = in_channels_, vectors = vectors_of(out_channels_), depth = kernel_[0];
  const MicroTile tile = micro_tile_of(products_);
  for (std::int64_t n = 0; n < (flat ? 1 : in.size(0)); ++n) {
    const Sample<O> to(out, n, flat, out_channels_, group);
    const T* const more =
        residual.defined() ? Sample<T>(residual, n, flat, out_channels_, group).data : nullptr;
    const Grid g(kernel_, pad_, dilation_, to.size);
    const Chunk most = largest_chunk(g, C, out_channels_);
    const Images made(most.planes * most.tiles, 16 * vectors);
    // One of the 36: of so many tiles that follow each other, from `first` of the chunk on.
    const auto multiply = [&](std::int64_t sum, const Images& images, const std::ptrdiff_t* planes,
                              std::int64_t first, std::int64_t tiles) {
      MicroTask t{};
      t.rows = planes;
      t.n_rows = static_cast<int>(depth);
      t.words = static_cast<int>(C);
      t.mstep = C * 4;
      t.pstep = 4;
      t.acc_step = made.numbers;
      for (std::int64_t v = 0; v < vectors; v += tile.vectors) {
        const std::int64_t width = std::min<std::int64_t>(tile.vectors, vectors - v),
                           room = tile.sums / width, parts = (tiles + room - 1) / room,
                           m = (tiles + parts - 1) / parts;
        const Micro micro = find_micro(products_, 1, static_cast<int>(m), static_cast<int>(width));
        t.weights =
            reinterpret_cast<const char*>(weights_.data() + sum * of_one_ + 16 * v * depth * C);
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t start = std::min(part * m, tiles - m);
          t.in = reinterpret_cast<const char*>(images.at(sum, start));
          t.acc = made.at(sum, first + start) + 16 * v;
          micro(t);
        }
      }
    };
    const Sample<T> from(in, n, flat, C, group);
    each_chunk(from, g, most, [&](const Chunk& c, const Images& images, const Ring& ring) {
      const std::int64_t run = ring.run(c, g.depth());
      team_for(sums, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::ptrdiff_t> planes(static_cast<std::size_t>(depth));
        for (std::int64_t k = begin; k < end; ++k)
          for (std::int64_t p = 0; p < c.planes; p += run) {
            for (std::int64_t z = 0; z < depth; ++z)
              planes[static_cast<std::size_t>(z)] =
                  ring.slot(c.z + p + z * dilation_[0]) * c.tiles * C * 4;
            multiply(k, images, planes.data(), p * c.tiles, run * c.tiles);
          }
      });
      team_for(c.planes * c.rows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          outputs_of(made, i * g.across, to, g, c.z + i / c.rows, c.row + i % c.rows, b, more,
                     adds);
      });
    });
  }
}

// ---- the weight's gradient ----------------------------------------------------------------------

namespace {

class WinogradWeightGrad {
 public:
  WinogradWeightGrad(const ConvSpec& spec, Products products)
      : products_(of_numbers(products)),
        tile_(micro_tile_of(products_)),
        kernel_(three(spec.kernel, 1)),
        pad_(three(spec.padding, 0)),
        dilation_(dilation_of(spec)),
        A_(spec.in),
        B_(spec.out),
        vectors_(vectors_of(B_)),
        sums_(sums * of_one()) {}
  template <class T>
  void add(const Sample<T>& x, const Sample<T>& grad);
  at::Tensor result(at::IntArrayRef shape) const;

 private:
  std::int64_t of_one() const { return kernel_[0] * A_ * vectors_ * 16; }
  // The sums of one of the 36, of a position of the kernel along z and a group of vectors.
  float* at(std::int64_t sum, std::int64_t z, std::int64_t group) const {
    return sums_.data() + sum * of_one() + (z * vectors_ + group) * A_ * 16;
  }
  void multiply(std::int64_t sum, const Chunk& c, const Images& images, const Ring& ring,
                const float* lanes) const;

  const Products products_;
  const MicroTile tile_;
  const Size3 kernel_, pad_, dilation_;
  const std::int64_t A_, B_, vectors_;
  Buffer<float> sums_;  // [sum][z][group of vectors][channel of x][vector][16]
  bool begun_ = false;
};

void WinogradWeightGrad::multiply(std::int64_t sum, const Chunk& c, const Images& images,
                                  const Ring& ring, const float* lanes) const {
  std::vector<std::ptrdiff_t> planes(static_cast<std::size_t>(c.planes));
  MicroTask t{};
  t.rows = planes.data();
  t.n_rows = static_cast<int>(c.planes);
  t.words = static_cast<int>(c.tiles);
  t.mstep = 4;
  t.pstep = A_ * 4;
  t.add = begun_;
  for (std::int64_t v = 0; v < vectors_; v += tile_.vectors) {
    const std::int64_t width = std::min<std::int64_t>(tile_.vectors, vectors_ - v),
                       room = tile_.sums / width, parts = (A_ + room - 1) / room,
                       m = (A_ + parts - 1) / parts;
    t.weights = reinterpret_cast<const char*>(lanes + 16 * v * c.planes * c.tiles);
    for (std::int64_t z = 0; z < kernel_[0]; ++z) {
      for (std::int64_t p = 0; p < c.planes; ++p)
        planes[static_cast<std::size_t>(p)] =
            ring.slot(c.z + p + z * dilation_[0]) * c.tiles * A_ * 4;
      for (std::int64_t a = 0; a < A_; a += m) {
        t.in = reinterpret_cast<const char*>(images.at(sum, 0) + a);
        t.acc = at(sum, z, v) + a * width * 16;
        find_micro(products_, 1, static_cast<int>(std::min(m, A_ - a)), static_cast<int>(width))(t);
      }
    }
  }
}

template <class T>
void WinogradWeightGrad::add(const Sample<T>& x, const Sample<T>& grad) {
  const Grid g(kernel_, pad_, dilation_, grad.size);
  const Chunk most = largest_chunk(g, A_, B_);
  const Images there(most.planes * most.tiles, 16 * vectors_);
  if (B_ % 16 != 0) std::fill_n(there.all.data(), sums * there.of_one, 0.F);
  each_chunk(x, g, most, [&](const Chunk& c, const Images& images, const Ring& ring) {
    const Lanes lanes{B_, vectors_, tile_.vectors, c.planes * c.tiles};
    team_for(c.planes * c.rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        output_sums(there, lanes, i * g.across, grad, g, c.z + i / c.rows, c.row + i % c.rows);
    });
    team_for(sums, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k)
        multiply(k, c, images, ring, there.all.data() + k * there.of_one);
    });
    begun_ = true;
  });
}

at::Tensor WinogradWeightGrad::result(at::IntArrayRef shape) const {
  const std::int64_t plane = kernel_[1] * kernel_[2], volume = kernel_[0] * plane;
  const Buffer<float> w(vectors_ * A_ * volume * 16);  // [vector][channel of x][tap][16]
  team_for(vectors_ * A_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t vector = i / A_, a = i % A_,
                         group = vector / tile_.vectors * tile_.vectors,
                         width = std::min<std::int64_t>(tile_.vectors, vectors_ - group);
      simd([&]() SLUICE_INLINE {
        for (std::int64_t z = 0; z < kernel_[0]; ++z) {
          const float* const from = at(0, z, group) + 16 * (a * width + vector - group);
          F16 half[winograd::most_kernel][side];  // [y][sum]
          for (std::int64_t j = 0; j < side; ++j) {
            F16 m[side], along_y[winograd::most_kernel];
            for (std::int64_t k = 0; k < side; ++k)
              m[k] = load<F16>(from + (k * side + j) * of_one());
            winograd::to_kernel(m, kernel_[1], along_y);
            for (std::int64_t y = 0; y < kernel_[1]; ++y) half[y][j] = along_y[y];
          }
          for (std::int64_t y = 0; y < kernel_[1]; ++y) {
            F16 made[winograd::most_kernel];
            winograd::to_kernel(half[y], kernel_[2], made);
            for (std::int64_t k = 0; k < kernel_[2]; ++k)
              store(w.data() + (i * volume + z * plane + y * kernel_[2] + k) * 16, made[k]);
          }
        }
      });
    }
  });
  return weights_of_lanes(shape, A_, B_, volume, [&](std::int64_t vector) {
    return [&, vector](std::int64_t tap, std::int64_t a) -> const float* {
      return w.data() + ((vector * A_ + a) * volume + tap) * 16;
    };
  });
}

}  // namespace

at::Tensor winograd_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                Products products, std::int64_t group) {
  const bool flat = is_flat(spec);
  const at::Tensor whole = at::empty(weight_shape(spec));
  each_part(spec, [&](const ConvSpec& part, const auto& of_weight) {
    WinogradWeightGrad sum(part, products);
    const auto add_all = [&]<class T>(T) {
      for (std::int64_t n = 0; n < (flat ? 1 : x.size(0)); ++n)
        sum.add(Sample<T>(x, n, flat, spec.in, group), Sample<T>(grad, n, flat, spec.out, group));
    };
    if (x.scalar_type() == at::kFloat)
      add_all(float{});
    else
      add_all(Bf16Bits{});
    of_weight(whole).copy_(sum.result(weight_shape(part)));
  });
  return whole;
}

}  // namespace sluice
