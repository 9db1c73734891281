// The weight gradient: dW[t][a][b] = sum over j of U[s j + offset_t][a] V[j][b], where U and V are
// input and output gradient (transposed convolutions: the other way round).
//
// Rows are stored as words. Products of pairs take two positions j at a time: of V (V[j], V[j+1])
// by lane, of U (U[x], U[x+s]) by channel; else a word is one number. Neighbouring taps and
// channels of U then lie side by side: m = kx A + a counts them all. A V of few channels puts its
// kx taps into the lanes instead.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "kernels/net/direct_conv.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_shape.h"

namespace sluice {
namespace {

template <class T>  // the numbers of U and V
struct WeightGrad {
  Products products;
  MicroTile tile;
  std::int64_t each;  // positions in a word
  Size3 stride, kernel, pad, u_size, v_size;
  std::int64_t A, B;       // channels of U and V
  bool in_lanes;           // kx taps are in the lanes
  std::int64_t positions;  // along x, of the sum
  std::int64_t words, M, lanes, vectors;
  std::int64_t u_rows, u_width;  // of a plane of U: rows, words of a row
  int ny;                        // ky taps in one tile

  // A piece of the result that one tile sums.
  struct Item {
    std::int64_t kz, ky, vector, width, m, size;
  };
  std::vector<Item> items;
  std::vector<float> acc;                            // micro_tile vectors an item
  std::vector<std::uint32_t> v_plane;                // [group][y][word][vector][lane]
  std::vector<std::vector<std::uint32_t>> u_planes;  // by z % kernel: [y][x][a]
  std::vector<std::int64_t> u_held;                  // which z a slot holds

  WeightGrad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v, Products products);
  void plan();
  void make_u(const T* u, std::int64_t z);
  void make_v(const T* v, std::int64_t z);
  void add_sample(const T* u, const T* v);
  void run(const Item& item, const std::uint32_t* u, float* to) const;
  // acc from its first aligned value on.
  float* sums() const {
    const auto at = reinterpret_cast<std::uintptr_t>(acc.data());
    return reinterpret_cast<float*>((at + 63) / 64 * 64);
  }
  at::Tensor result(at::IntArrayRef shape) const;
};

// n words of these numbers, or of each with the one at the same place of `next`.
template <class T>
void make_words(const T* numbers, const T* next, std::int64_t n, bool pairs, std::uint32_t* to) {
  if (!pairs) return copy_numbers(reinterpret_cast<float*>(to), numbers, n);
  if constexpr (std::is_same_v<T, Bf16Bits>)
    simd([=]() SLUICE_INLINE {
      std::int64_t i = 0;
      for (; i + 16 <= n; i += 16) {
        H16 a, b;
        std::memcpy(&a, numbers + i, 32);
        std::memcpy(&b, next + i, 32);
        const U16 pair = __builtin_convertvector(a, U16) | __builtin_convertvector(b, U16) << 16;
        std::memcpy(to + i, &pair, 64);
      }
      for (; i < n; ++i) to[i] = numbers[i] | static_cast<std::uint32_t>(next[i]) << 16;
    });
}

template <class T>
WeightGrad<T>::WeightGrad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v,
                          Products products_)
    : products(products_),
      tile(micro_tile_of(products)),
      each(numbers_a_word(products)),
      stride(three(spec.stride, 1)),
      kernel(three(spec.kernel, 1)),
      pad(three(spec.padding, 0)),
      u_size(spatial(u)),
      v_size(spatial(v)),
      A(u.size(1)),
      B(v.size(1)) {
  in_lanes = stride[2] == 1 && kernel[2] > 1 && kernel[2] * B <= 16;
  positions = in_lanes ? u_size[2] : v_size[2];
  words = (positions + each - 1) / each;
  M = in_lanes ? A : kernel[2] * A;
  lanes = in_lanes ? kernel[2] * B : B;
  vectors = (lanes + 15) / 16;
  u_rows = stride[1] * (v_size[1] - 1) + kernel[1];
  u_width = stride[2] * each * words + kernel[2];
  u_planes.assign(kernel[0], std::vector<std::uint32_t>(u_rows * u_width * A));
  u_held.assign(kernel[0], -1);
  v_plane.resize(vectors * v_size[1] * words * 16);
  plan();
}

template <class T>
void WeightGrad<T>::plan() {
  const auto most_wide = std::min<std::int64_t>(tile.vectors, vectors);
  ny = kernel[1] == 3 && 3 * M * most_wide <= tile.sums ? 3 : 1;
  for (std::int64_t kz = 0; kz < kernel[0]; ++kz)
    for (std::int64_t ky = 0; ky < kernel[1]; ky += ny)
      for (std::int64_t v = 0; v < vectors; v += tile.vectors) {
        const std::int64_t width = std::min<std::int64_t>(tile.vectors, vectors - v);
        const std::int64_t most = tile.sums / width / ny, tiles = (M + most - 1) / most;
        const std::int64_t size = (M + tiles - 1) / tiles;
        for (std::int64_t m = 0; m < M; m += size)
          items.push_back({kz, ky, v, width, m, std::min(size, M - m)});
      }
  acc.assign(items.size() * micro_tile * 16 + 16, 0.f);
}

// Plane z of U with its borders, as words: of pairs (U[x], U[x + s]).
template <class T>
void WeightGrad<T>::make_u(const T* u, std::int64_t z) {
  auto& plane = u_planes[z % kernel[0]];
  if (u_held[z % kernel[0]] == z) return;
  u_held[z % kernel[0]] = z;
  const std::int64_t left = in_lanes ? 0 : pad[2], n = std::min(u_size[2], u_width - left);
  team_for(u_rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> row((u_width + stride[2]) * A, 0);
    for (std::int64_t y = begin; y < end; ++y) {
      std::uint32_t* to = plane.data() + y * u_width * A;
      const std::int64_t iy = y - pad[1];
      if (iy < 0 || iy >= u_size[1]) {
        std::memset(to, 0, u_width * A * 4);
        continue;
      }
      std::memcpy(row.data() + left * A, u + ((z * u_size[1] + iy) * u_size[2]) * A,
                  n * A * sizeof(T));
      make_words(row.data(), row.data() + stride[2] * A, u_width * A, each == 2, to);
    }
  });
}

// Plane z of V as words of positions by lane; lanes that are not there stay zero.
template <class T>
void WeightGrad<T>::make_v(const T* v, std::int64_t z) {
  const std::int64_t W = v_size[2];
  // With taps in the lanes, lane (r, b) at x is V[x + r - (K - 1 - pad)][b], r = K - 1 - kx.
  const std::int64_t left = in_lanes ? kernel[2] - 1 - pad[2] : 0;
  team_for(v_size[1], [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> row((each * words + 2 * kernel[2] + W) * B + 16 * vectors, 0);
    for (std::int64_t y = begin; y < end; ++y) {
      std::memcpy(row.data() + left * B, v + (z * v_size[1] + y) * W * B, W * B * sizeof(T));
      for (std::int64_t vec = 0; vec < vectors; ++vec) {
        const std::int64_t group = vec / tile.vectors * tile.vectors;
        const std::int64_t width = std::min<std::int64_t>(tile.vectors, vectors - group);
        const std::int64_t n = std::min<std::int64_t>(16, lanes - vec * 16);
        std::uint32_t* to =
            v_plane.data() + (group * v_size[1] * words + y * words * width + vec - group) * 16;
        for (std::int64_t p = 0; p < words; ++p) {
          const T* from = row.data() + vec * 16 + each * p * B;
          make_words(from, from + B, n, each == 2, to + p * width * 16);
        }
      }
    }
  });
}

template <class T>
void WeightGrad<T>::run(const Item& item, const std::uint32_t* u, float* to) const {
  std::vector<std::ptrdiff_t> rows(v_size[1]);
  for (std::int64_t y = 0; y < v_size[1]; ++y)
    rows[y] = (stride[1] * y + item.ky) * u_width * A * 4;
  MicroTask t;
  t.rows = rows.data();
  t.n_rows = static_cast<int>(v_size[1]);
  t.words = static_cast<int>(words);
  t.in = reinterpret_cast<const char*>(u + item.m);
  t.mstep = 4;
  t.pstep = each * stride[2] * A * 4;
  t.ystep = u_width * A * 4;
  t.weights = reinterpret_cast<const char*>(v_plane.data() + item.vector * v_size[1] * words * 16);
  t.acc = to;
  t.add = true;
  find_micro(products, ny, static_cast<int>(item.size), static_cast<int>(item.width))(t);
}

template <class T>
void WeightGrad<T>::add_sample(const T* u, const T* v) {
  std::fill(u_held.begin(), u_held.end(), -1);
  for (std::int64_t z = 0; z < v_size[0]; ++z) {
    make_v(v, z);
    for (std::int64_t kz = 0; kz < kernel[0]; ++kz) {
      const std::int64_t uz = stride[0] * z + kz - pad[0];
      if (uz >= 0 && uz < u_size[0]) make_u(u, uz);
    }
    team_for(static_cast<std::int64_t>(items.size()), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t uz = stride[0] * z + items[i].kz - pad[0];
        if (uz < 0 || uz >= u_size[0]) continue;
        run(items[i], u_planes[uz % kernel[0]].data(), sums() + i * micro_tile * 16);
      }
    });
  }
}

template <class T>
at::Tensor WeightGrad<T>::result(at::IntArrayRef shape) const {
  at::Tensor out = at::zeros(shape, at::kFloat);
  float* w = out.data_ptr<float>();
  const std::int64_t KX = kernel[2], volume = kernel[0] * kernel[1] * KX;
  std::vector<std::int64_t> of_lane(lanes), of_m(M);  // offsets in the weight
  for (std::int64_t l = 0; l < lanes; ++l)
    of_lane[l] = in_lanes ? l % B * A * volume + KX - 1 - l / B : l * A * volume;
  for (std::int64_t m = 0; m < M; ++m) of_m[m] = in_lanes ? m * volume : m % A * volume + m / A;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const std::int64_t first = item.vector * 16, end = std::min(lanes, first + item.width * 16);
    const float* from = sums() + i * micro_tile * 16;
    for (std::int64_t y = 0; y < ny; ++y)
      for (std::int64_t m = 0; m < item.size; ++m, from += item.width * 16) {
        float* to = w + of_m[item.m + m] + (item.kz * kernel[1] + item.ky + y) * KX;
        for (std::int64_t l = first; l < end; ++l) to[of_lane[l]] = from[l - first];
      }
  }
  return out;
}

template <class T>
at::Tensor weight_grad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v,
                       Products products) {
  WeightGrad<T> g(spec, u, v, products);
  const std::int64_t u_volume = u.numel() / u.size(0), v_volume = v.numel() / v.size(0);
  for (std::int64_t n = 0; n < u.size(0); ++n)
    g.add_sample(static_cast<const T*>(u.const_data_ptr()) + n * u_volume,
                 static_cast<const T*>(v.const_data_ptr()) + n * v_volume);
  std::vector<std::int64_t> shape{spec.transposed ? spec.in : spec.out,
                                  spec.transposed ? spec.out : spec.in};
  shape.insert(shape.end(), spec.kernel.begin(), spec.kernel.end());
  return g.result(shape);
}

}  // namespace

at::Tensor direct_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                              Products products) {
  const at::Tensor& u = spec.transposed ? grad : x;
  const at::Tensor& v = spec.transposed ? x : grad;
  return u.scalar_type() == at::kFloat ? weight_grad<float>(spec, u, v, products)
                                       : weight_grad<Bf16Bits>(spec, u, v, products);
}

}  // namespace sluice
