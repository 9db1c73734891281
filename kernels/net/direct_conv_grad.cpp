// The weight gradient: dW[t][a][b] = sum over j of U[s j + offset_t][a] V[j][b], where U and V are
// input and output gradient (transposed convolutions: the other way round).
//
// Rows are stored as words. Products of pairs take two positions j at a time: of V (V[j], V[j+1])
// by lane, of U (U[x], U[x+s]) by channel; else a word is one number. Neighbouring taps and
// channels of U then lie side by side: m = kx A + a counts them all. A V of few channels puts its
// kx taps into the lanes instead.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/net/direct_conv.h"
#include "kernels/net/direct_conv_grad_tiles.h"
#include "kernels/net/direct_conv_grouped.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/direct_conv_winograd.h"

namespace sluice {
namespace {

// n words of these numbers and those at the same places of `next`.
template <class T>
void make_pairs(const T* numbers, const T* next, std::int64_t n, std::uint32_t* to) {
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

// Of each row of B numbers, or of each two rows, the first `lanes` (at most 16) as words; `step`
// words from one to the next.
template <class T>
void spread_lanes(const T* from, std::int64_t B, std::int64_t words, std::int64_t lanes,
                  std::int64_t each, std::uint32_t* to, std::int64_t step) {
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t p = 0; p < words; ++p)
      if (lanes == 16)
        std::memcpy(to + p * step, from + p * B, 64);
      else
        std::memcpy(to + p * step, from + p * B, lanes * 4);
    return;
  } else {
    simd([=]() SLUICE_INLINE {
      for (std::int64_t p = 0; p < words; ++p) {
        const T *low = from + each * p * B, *high = each == 2 ? low + B : low;
        std::uint32_t* word = to + p * step;
        if (lanes == 16) {
          H16 a, b;
          std::memcpy(&a, low, 32);
          std::memcpy(&b, high, 32);
          const U16 x = __builtin_convertvector(a, U16), y = __builtin_convertvector(b, U16);
          const U16 both = each == 2 ? x | y << 16 : x << 16;
          std::memcpy(word, &both, 64);
        } else {
          for (std::int64_t l = 0; l < lanes; ++l)
            word[l] =
                each == 2 ? low[l] | std::uint32_t{high[l]} << 16 : std::uint32_t{low[l]} << 16;
        }
      }
    });
  }
}

// Numbers that stay in the second-level cache while all pieces of the result read them.
constexpr std::int64_t chunk_words = 80 * 1024;

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
  std::int64_t u_width;  // words of a row of U
  int ny;                // ky taps in one tile

  // A piece of the result that one tile sums.
  struct Item {
    std::int64_t kz, ky, vector, width, m, size;
  };
  // Rows of V that are worked on at once: whole planes of a sample, or some rows of one. Plane p of
  // its rows of U stands in slot `first + p`, counted round; those before `made` are there from the
  // chunk before, which is the one above.
  struct Chunk {
    std::int64_t sample, z, y, planes, rows;
    std::int64_t number = 0, first = 0, made = 0;
  };
  std::vector<Item> items;
  std::vector<std::size_t> first_item;  // by kz, ky and group of vectors: of all its m
  Buffer<float> acc;                    // micro_tile vectors an item
  std::vector<char> begun;              // by item: its sums are there
  // Of the chunk that is summed and of the next, which is made meanwhile.
  Buffer<std::uint32_t> v[2];  // [group][z][y][word][vector][lane]
  Buffer<std::uint32_t> u;     // [slot][y][x][a]
  std::int64_t slots, slot_rows;

  WeightGrad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v, Products products);
  void plan();
  Chunk largest() const;
  std::vector<Chunk> chunks(std::int64_t samples) const;
  std::int64_t u_planes(const Chunk& c) const { return stride[0] * (c.planes - 1) + kernel[0]; }
  std::int64_t u_rows(const Chunk& c) const { return stride[1] * (c.rows - 1) + kernel[1]; }
  void make_u_row(const T* from, std::int64_t z, std::int64_t y, std::uint32_t* to) const;
  void make_v_row(const T* from, const Chunk& c, std::int64_t row);
  void make_rows(const T* u, const T* v, const Chunk& c, std::int64_t begin, std::int64_t end);
  std::int64_t new_rows(const Chunk& c) const;
  void add(const T* u, const T* v, std::int64_t samples);
  void run(std::size_t item, const Chunk& c);
  class Places;
  at::Tensor result(at::IntArrayRef shape) const;
};

template <class T>
WeightGrad<T>::WeightGrad(const ConvSpec& spec, const at::Tensor& u_, const at::Tensor& v_,
                          Products products_)
    : products(products_),
      tile(micro_tile_of(products)),
      each(numbers_a_word(products)),
      stride(three(spec.stride, 1)),
      kernel(three(spec.kernel, 1)),
      pad(three(spec.padding, 0)),
      u_size(long_rows(spec, spatial(u_))),
      v_size(long_rows(spec, spatial(v_))),
      A(u_.size(1)),
      B(v_.size(1)) {
  in_lanes = stride[2] == 1 && kernel[2] > 1 && kernel[2] * B <= 16;
  positions = in_lanes ? u_size[2] : v_size[2];
  words = (positions + each - 1) / each;
  M = in_lanes ? A : kernel[2] * A;
  lanes = in_lanes ? kernel[2] * B : B;
  vectors = (lanes + 15) / 16;
  u_width = stride[2] * each * words + kernel[2];
  const Chunk c = largest();
  slots = 2 * u_planes(c);
  slot_rows = u_rows(c);
  const std::int64_t u_words = slots * slot_rows * u_width * A;
  const std::int64_t v_words = vectors * c.planes * c.rows * words * 16;
  u = Buffer<std::uint32_t>(u_words);
  for (auto& rows : v) {
    rows = Buffer<std::uint32_t>(v_words);
    if (lanes % 16 != 0) std::memset(rows.data(), 0, v_words * 4);
  }
  plan();
}

template <class T>
void WeightGrad<T>::plan() {
  const auto most_wide = std::min<std::int64_t>(tile.vectors, vectors);
  ny = kernel[1] == 3 && 3 * M * most_wide <= tile.sums ? 3 : 1;
  for (std::int64_t kz = 0; kz < kernel[0]; ++kz)
    for (std::int64_t ky = 0; ky < kernel[1]; ky += ny)
      for (std::int64_t vec = 0; vec < vectors; vec += tile.vectors) {
        const std::int64_t width = std::min<std::int64_t>(tile.vectors, vectors - vec);
        const std::int64_t most = tile.sums / width / ny, tiles = (M + most - 1) / most;
        const std::int64_t size = (M + tiles - 1) / tiles;
        first_item.push_back(items.size());
        for (std::int64_t m = 0; m < M; m += size)
          items.push_back({kz, ky, vec, width, m, std::min(size, M - m)});
      }
  acc = Buffer<float>(static_cast<std::int64_t>(items.size()) * micro_tile * 16);
  begun.assign(items.size(), 0);
}

template <class T>
typename WeightGrad<T>::Chunk WeightGrad<T>::largest() const {
  const std::int64_t v_row = vectors * words * 16, u_row = u_width * A;
  const std::int64_t plane = v_size[1] * v_row + stride[0] * (stride[1] * v_size[1] + 2) * u_row;
  if (plane <= chunk_words) return {0, 0, 0, std::min(v_size[0], chunk_words / plane), v_size[1]};
  const std::int64_t rows = chunk_words / (v_row + kernel[0] * stride[1] * u_row);
  return {0, 0, 0, 1,
          std::clamp<std::int64_t>(rows, std::min<std::int64_t>(4, v_size[1]), v_size[1])};
}

// Down a column of planes, then the next column: planes of U that two chunks share are made once.
template <class T>
std::vector<typename WeightGrad<T>::Chunk> WeightGrad<T>::chunks(std::int64_t samples) const {
  const Chunk most = largest();
  std::vector<Chunk> all;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t y = 0; y < v_size[1]; y += most.rows)
      for (std::int64_t z = 0; z < v_size[0]; z += most.planes) {
        Chunk c{n, z, y, std::min(most.planes, v_size[0] - z), std::min(most.rows, v_size[1] - y)};
        if (!all.empty()) {
          const Chunk& before = all.back();
          const std::int64_t planes = u_planes(before), moved = stride[0] * before.planes;
          c.number = before.number + 1;
          c.made = z > 0 ? std::max<std::int64_t>(0, planes - moved) : 0;
          c.first = before.first + planes - c.made;
        }
        all.push_back(c);
      }
  return all;
}

// Row (z, y) of U, which may lie outside of it, as words: of pairs (U[x], U[x + s]).
template <class T>
void WeightGrad<T>::make_u_row(const T* from, std::int64_t z, std::int64_t y,
                               std::uint32_t* to) const {
  const std::int64_t left = in_lanes ? 0 : pad[2], n = std::min(u_size[2], u_width - left);
  if (y < 0 || y >= u_size[1]) {
    std::memset(to, 0, u_width * A * 4);
    return;
  }
  from += (z * u_size[1] + y) * u_size[2] * A;
  if (each == 1) {
    std::memset(to, 0, left * A * 4);
    copy_numbers(reinterpret_cast<float*>(to + left * A), from, n * A);
    std::memset(to + (left + n) * A, 0, (u_width - left - n) * A * 4);
    return;
  }
  std::vector<T> row((u_width + stride[2]) * A, 0);
  std::memcpy(row.data() + left * A, from, n * A * sizeof(T));
  make_pairs(row.data(), row.data() + stride[2] * A, u_width * A, to);
}

// The `row`th row of V of a chunk as words of positions by lane; lanes that are not there stay
// zero. With taps in the lanes, lane (r, b) at x is V[x + r - (K - 1 - pad)][b], r = K - 1 - kx.
template <class T>
void WeightGrad<T>::make_v_row(const T* from, const Chunk& c, std::int64_t row) {
  const std::int64_t W = v_size[2], left = in_lanes ? kernel[2] - 1 - pad[2] : 0;
  const std::int64_t rows = c.planes * c.rows;
  from += ((c.z + row / c.rows) * v_size[1] + c.y + row % c.rows) * W * B;
  std::uint32_t* const to = v[c.number % 2].data();
  const bool whole = !in_lanes && each == 1;  // its words are the row's numbers
  if (std::is_same_v<T, float> && whole && B == 16 * vectors && vectors <= tile.vectors) {
    std::memcpy(to + row * words * B, from, W * B * sizeof(T));
    return;
  }
  std::vector<T> wide;
  if (!whole) {
    wide.resize((each * words + 2 * kernel[2] + W) * B + 16 * vectors);
    std::memcpy(wide.data() + left * B, from, W * B * sizeof(T));
    from = wide.data();
  }
  for (std::int64_t vec = 0; vec < vectors; ++vec) {
    const std::int64_t group = vec / tile.vectors * tile.vectors;
    const std::int64_t width = std::min<std::int64_t>(tile.vectors, vectors - group);
    spread_lanes(from + vec * 16, B, words, std::min<std::int64_t>(16, lanes - vec * 16), each,
                 to + ((group * rows + row * width) * words + vec - group) * 16, width * 16);
  }
}

// How many rows a chunk has made: its own of V, then those of U that are not there.
template <class T>
std::int64_t WeightGrad<T>::new_rows(const Chunk& c) const {
  return c.planes * c.rows + (u_planes(c) - c.made) * u_rows(c);
}

template <class T>
void WeightGrad<T>::make_rows(const T* from_u, const T* from_v, const Chunk& c, std::int64_t begin,
                              std::int64_t end) {
  from_u += c.sample * u_size[0] * u_size[1] * u_size[2] * A;
  from_v += c.sample * v_size[0] * v_size[1] * v_size[2] * B;
  const std::int64_t of_v = c.planes * c.rows, per_plane = u_rows(c);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i < of_v) {
      make_v_row(from_v, c, i);
      continue;
    }
    const std::int64_t plane = c.made + (i - of_v) / per_plane, y = (i - of_v) % per_plane;
    const std::int64_t z = stride[0] * c.z - pad[0] + plane;
    if (z < 0 || z >= u_size[0]) continue;
    const std::int64_t row = (c.first + plane) % slots * slot_rows + y;
    make_u_row(from_u, z, stride[1] * c.y - pad[1] + y, u.data() + row * u_width * A);
  }
}

template <class T>
void WeightGrad<T>::run(std::size_t number, const Chunk& c) {
  const Item& item = items[number];
  // Planes of V whose plane of U lies in the image.
  std::int64_t first = 0, end = c.planes;
  const auto u_plane = [&](std::int64_t z) { return stride[0] * (c.z + z) + item.kz - pad[0]; };
  while (first < end && u_plane(first) < 0) ++first;
  while (first < end && u_plane(end - 1) >= u_size[0]) --end;
  if (first == end) return;
  constexpr std::int64_t most = 256;
  std::ptrdiff_t rows[most];
  MicroTask t;
  t.rows = rows;
  t.words = static_cast<int>(words);
  t.in = reinterpret_cast<const char*>(u.data() + item.m);
  t.mstep = 4;
  t.pstep = each * stride[2] * A * 4;
  t.ystep = u_width * A * 4;
  t.acc = acc.data() + static_cast<std::int64_t>(number) * micro_tile * 16;
  const int size = static_cast<int>(item.size), width = static_cast<int>(item.width);
  const Micro micro = find_micro(products, ny, size, width);
  const std::uint32_t* group =
      v[c.number % 2].data() + item.vector * c.planes * c.rows * words * 16;
  for (std::int64_t r = first * c.rows; r < end * c.rows; r += most) {
    t.n_rows = static_cast<int>(std::min(most, end * c.rows - r));
    for (int i = 0; i < t.n_rows; ++i) {
      const std::int64_t z = (r + i) / c.rows, y = (r + i) % c.rows;
      const std::int64_t slot = (c.first + stride[0] * z + item.kz) % slots;
      rows[i] = (slot * slot_rows + stride[1] * y + item.ky) * t.ystep;
    }
    t.weights = reinterpret_cast<const char*>(group + r * words * item.width * 16);
    t.add = begun[number];
    micro(t);
    begun[number] = 1;
  }
}

// The threads meet once a chunk: while it is summed, the next one's rows are made.
template <class T>
void WeightGrad<T>::add(const T* from_u, const T* from_v, std::int64_t samples) {
  const std::vector<Chunk> all = chunks(samples);
  const auto n_items = static_cast<std::int64_t>(items.size());
  team_for(new_rows(all[0]), [&](std::int64_t begin, std::int64_t end) {
    make_rows(from_u, from_v, all[0], begin, end);
  });
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::int64_t threads = std::max(1, team_size());
    team_for(threads, [&](std::int64_t thread, std::int64_t) {
      for (std::int64_t i = n_items * thread / threads; i < n_items * (thread + 1) / threads; ++i)
        run(static_cast<std::size_t>(i), all[k]);
      if (k + 1 == all.size()) return;
      const std::int64_t rows = new_rows(all[k + 1]);
      make_rows(from_u, from_v, all[k + 1], rows * thread / threads, rows * (thread + 1) / threads);
    });
  }
}

// Where sums of 16 lanes stand: of each kernel position, and from there of each m.
template <class T>
class WeightGrad<T>::Places {
 public:
  Places(const WeightGrad& g, std::int64_t vector) : g_(g) {
    const std::int64_t groups = (g.vectors + g.tile.vectors - 1) / g.tile.vectors;
    const std::int64_t steps = (g.kernel[1] + g.ny - 1) / g.ny;
    for (std::int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (std::int64_t ky = 0; ky < g.kernel[1]; ++ky) {
        const std::size_t i =
            g.first_item[(kz * steps + ky / g.ny) * groups + vector / g.tile.vectors];
        // A plane of the kernel may never have met the image.
        first_.push_back(g.begun[i]
                             ? g.acc.data() + static_cast<std::int64_t>(i) * micro_tile * 16 +
                                   (vector - g.items[i].vector) * 16
                             : nullptr);
        if (kz > 0 || ky >= g.ny) continue;
        for (std::int64_t m = 0; m < g.M; ++m) {
          const std::int64_t size = g.items[i].size, k = m / size;
          const Item& item = g.items[i + static_cast<std::size_t>(k)];
          of_m_.push_back((k * micro_tile + (ky * item.size + m % size) * item.width) * 16);
        }
      }
  }
  const float* at(std::int64_t kz, std::int64_t ky, std::int64_t m) const {
    const float* first = first_[kz * g_.kernel[1] + ky];
    return first ? first + of_m_[(g_.ny == 1 ? 0 : ky) * g_.M + m] : zeros;
  }

 private:
  alignas(64) inline static const float zeros[16] = {};
  const WeightGrad& g_;
  std::vector<const float*> first_;
  std::vector<std::int64_t> of_m_;
};

template <class T>
at::Tensor WeightGrad<T>::result(at::IntArrayRef shape) const {
  const std::int64_t KY = kernel[1], KX = kernel[2], volume = kernel[0] * KY * KX;
  if (!in_lanes)
    return weights_of_lanes(shape, A, B, volume, [&](std::int64_t vector) {
      return [&, places = Places(*this, vector)](std::int64_t k, std::int64_t a) {
        return places.at(k / (KY * KX), k / KX % KY, k % KX * A + a);
      };
    });
  at::Tensor out = at::empty(shape, at::kFloat);
  float* w = out.data_ptr<float>();
  const Places places(*this, 0);
  for (std::int64_t l = 0; l < lanes; ++l)
    for (std::int64_t a = 0; a < A; ++a)
      for (std::int64_t k = 0; k < kernel[0] * KY; ++k)
        w[(l % B * A + a) * volume + k * KX + KX - 1 - l / B] = places.at(k / KY, k % KY, a)[l];
  return out;
}

template <class T>
at::Tensor weight_grad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v,
                       Products products) {
  WeightGrad<T> g(spec, u, v, products);
  g.add(static_cast<const T*>(u.const_data_ptr()), static_cast<const T*>(v.const_data_ptr()),
        u.size(0));
  return g.result(weight_shape(spec));
}

}  // namespace

at::Tensor direct_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                              Products products) {
  if (is_grouped(spec)) return grouped_weight_grad(spec, x, grad, products);
  if (is_depthwise(spec)) return depthwise_weight_grad(spec, x, grad, products);
  if (products == Products::tiles && tile_weight_grad_fits(spec))
    return tile_weight_grad(spec, x, grad);
  const bool by_winograd = winograd_grad_pays(spec, grad, products);
  products = without_tiles(products);
  if (plane_weight_grad_fits(spec, products)) return plane_weight_grad(spec, x, grad, products);
  if (by_winograd) return winograd_weight_grad(spec, x, grad, products);
  return with_u_and_v(spec, x, grad, [&]<class T>(const at::Tensor& u, const at::Tensor& v, T) {
    return weight_grad<T>(spec, u, v, products);
  });
}

}  // namespace sluice
