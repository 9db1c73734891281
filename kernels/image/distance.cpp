#include "kernels/image/distance.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/base/buffer.h"
#include "kernels/base/simd.h"
#include "kernels/image/affine.h"

namespace sluice::kernels {
namespace {

// A rule says what a way of k voxels along an axis costs, and joins that with what the axes before
// came to. No way is `far` voxels long; `none` is more than any way can cost.
struct SquaresOfVoxels {  // one spacing for all axes: whole numbers
  using Value = std::int32_t;
  static constexpr Value far = 23170, none = far * far;
  double mm;
  template <class V>
  SLUICE_INLINE V cost(const V& k, int) const {
    return k * k;
  }
  template <class V>
  SLUICE_INLINE V join(const V& a, const V& b) const {
    return a + b;
  }
  SLUICE_INLINE double distance(Value v) const { return mm * std::sqrt(static_cast<double>(v)); }
};

struct SquaresOfMillimetres {
  using Value = double;
  static constexpr Value far = std::numeric_limits<double>::infinity(), none = far;
  std::array<double, 3> mm;
  template <class V>
  SLUICE_INLINE V cost(const V& k, int axis) const {
    return k * k * (mm[axis] * mm[axis]);
  }
  template <class V>
  SLUICE_INLINE V join(const V& a, const V& b) const {
    return a + b;
  }
  SLUICE_INLINE double distance(Value v) const { return std::sqrt(v); }
};

template <bool sum>
struct Steps {
  using Value = std::int32_t;
  static constexpr Value far = 1 << 29, none = far;
  template <class V>
  SLUICE_INLINE V cost(const V& k, int) const {
    return k;
  }
  template <class V>
  SLUICE_INLINE V join(const V& a, const V& b) const {
    if constexpr (sum)
      return a + b;
    else
      return a > b ? a : b;
  }
  SLUICE_INLINE double distance(Value v) const { return v; }
};

// Axes that an image lacks have one voxel: [X] is [1, 1, X], [X, Y] is [X, 1, Y].
struct Axes {
  std::array<bool, 3> real{true, true, true};
  Shape3 shape{1, 1, 1};
  std::array<double, 3> mm{1, 1, 1};

  Axes(at::IntArrayRef sizes, const std::vector<double>& spacing)
      : real{sizes.size() > 1, sizes.size() > 2, true} {
    for (std::size_t k = 0, next = 0; k < 3; ++k)
      if (real[k]) shape[k] = sizes[next], mm[k] = std::abs(spacing[next++]);
  }
  // f(rule) for distances in an image of `n` voxels.
  template <class F>
  auto with_rule(Distance metric, const Shape3& n, const F& f) const {
    if (metric == Distance::taxicab) return f(Steps<true>{});
    if (metric == Distance::chessboard) return f(Steps<false>{});
    const std::int64_t diagonal = n[0] * n[0] + n[1] * n[1] + n[2] * n[2];
    const bool same = (!real[0] || mm[0] == mm[2]) && (!real[1] || mm[1] == mm[2]);
    return same && diagonal < SquaresOfVoxels::none ? f(SquaresOfVoxels{mm[2]})
                                                    : f(SquaresOfMillimetres{mm});
  }
};

template <class T>
struct WideOf {
  typedef T type __attribute__((vector_size(64)));
};

// What the voxels of an image come to under a rule, axis by axis.
template <class Rule>
class Spread {
 public:
  using T = typename Rule::Value;

  Spread(const Rule& rule, const Shape3& n, const std::uint8_t* set)
      : rule_(rule), n_(n), values_(n[0] * n[1] * n[2]) {
    along_first(set);
    along_second();
  }

  // out: float of every voxel.
  void along_third(float* out) const {
    const std::int64_t n = n_[2], before = margin(n), rows = n_[0] * n_[1];
    const Buffer<T> line(2 * before + n);
    std::fill_n(line.data(), 2 * before + n, Rule::none);
    simd([&]() SLUICE_INLINE {
      for (std::int64_t row = 0; row < rows; ++row) {
        T* from = line.data() + before;
        std::copy_n(values_.data() + row * n, n, from);
        Range known;
        for (std::int64_t z = 0; z < n; ++z)
          if (from[z] < Rule::none) known.add(z);
        for (std::int64_t next = 0; next < n; next += lanes) {
          const std::int64_t z = std::min(next, std::max<std::int64_t>(n - lanes, 0));
          alignas(64) T best[lanes];
          outward(from + z, 1, known.ways(z, z + lanes - 1), 2, best);
          for (std::int64_t i = 0; i < std::min(lanes, n); ++i)
            out[row * n + z + i] = distance_of(best[i]);
        }
      }
    });
  }

  // Of one voxel, `z` in a row.
  float distance(std::int64_t row, std::int64_t z) const {
    const std::int64_t n = n_[2];
    const T* line = values_.data() + row * n;
    T best = line[z];
    for (std::int64_t k = 1; k < n; ++k) {
      const T cost = rule_.cost(static_cast<T>(k), 2);
      if (cost >= best) break;
      if (k <= z) best = std::min(best, rule_.join(line[z - k], cost));
      if (z + k < n) best = std::min(best, rule_.join(line[z + k], cost));
    }
    return distance_of(best);
  }

 private:
  static constexpr std::int64_t lanes = 64 / sizeof(T), at_once = 4;
  using Wide = typename WideOf<T>::type;

  // Voxels around a line that say `none`, so that no way needs to ask where the line ends.
  static std::int64_t margin(std::int64_t n) { return n + 2 * lanes; }

  // The first and the last place of a line that says more than `none`.
  struct Range {
    std::int64_t first = std::numeric_limits<std::int64_t>::max() / 2, last = -first;
    SLUICE_INLINE void add(std::int64_t at) { first = std::min(first, at), last = at; }
    // The shortest and the longest way there from places `low` to `high`.
    SLUICE_INLINE std::array<std::int64_t, 2> ways(std::int64_t low, std::int64_t high) const {
      return {std::max<std::int64_t>({1, first - high, low - last}),
              std::max(high - first, last - low)};
    }
  };

  SLUICE_INLINE float distance_of(T value) const {
    return value < Rule::none ? static_cast<float>(rule_.distance(value))
                              : std::numeric_limits<float>::infinity();
  }

  // The least of join(from[l + q * stride], cost of q) over q = 0 and `ways`, for each lane l.
  SLUICE_INLINE void outward(const T* from, std::int64_t stride,
                             const std::array<std::int64_t, 2>& ways, int axis, T* out) const {
    const auto load = [](const T* p) SLUICE_INLINE {
      Wide v;
      std::memcpy(&v, p, sizeof v);
      return v;
    };
    Wide best = load(from);
    for (std::int64_t k = ways[0]; k <= ways[1];) {
      const auto open = best > Wide{} + rule_.cost(static_cast<T>(k), axis);
      std::array<std::int64_t, 8> bits;
      std::memcpy(bits.data(), &open, sizeof bits);
      std::int64_t any = 0;
      for (const std::int64_t b : bits) any |= b;
      if (any == 0) break;
      for (std::int64_t i = 0; i < at_once; ++i, ++k) {
        const Wide way = Wide{} + rule_.cost(static_cast<T>(k), axis);
        const Wide low = rule_.join(load(from - k * stride), way);
        const Wide high = rule_.join(load(from + k * stride), way);
        const Wide least = low < high ? low : high;
        best = least < best ? least : best;
      }
    }
    std::memcpy(out, &best, sizeof best);
  }

  // From what is set, both ways: the steps to it, and at once what they cost.
  void along_first(const std::uint8_t* set) {
    const std::int64_t plane = n_[1] * n_[2];
    const Buffer<T> line(plane);
    simd([&]() SLUICE_INLINE {
      T* steps = line.data();
      std::fill_n(steps, plane, Rule::far);
      for (std::int64_t x = 0; x < n_[0]; ++x) {
        const std::uint8_t* is_set = set + x * plane;
        T* to = values_.data() + x * plane;
        for (std::int64_t i = 0; i < plane; ++i) {
          const T on = std::min<T>(steps[i] + 1, Rule::far);
          steps[i] = to[i] = is_set[i] ? T(0) : on;
        }
      }
      std::fill_n(steps, plane, Rule::far);
      for (std::int64_t x = n_[0]; x-- > 0;) {
        T* to = values_.data() + x * plane;
        for (std::int64_t i = 0; i < plane; ++i) {
          steps[i] = std::min<T>(steps[i] + 1, to[i]);
          to[i] = steps[i] < Rule::far ? rule_.cost(steps[i], 0) : Rule::none;
        }
      }
    });
  }

  void along_second() {
    const std::int64_t n = n_[1], row = n_[2], before = margin(n), all = 2 * before + n;
    if (n == 1) return;
    const Buffer<T> lines(all * lanes);
    std::fill_n(lines.data(), all * lanes, Rule::none);
    simd([&]() SLUICE_INLINE {
      T* from = lines.data() + before * lanes;
      for (std::int64_t x = 0; x < n_[0]; ++x)
        for (std::int64_t z = 0; z < row; z += lanes) {
          T* to = values_.data() + x * n * row + z;
          const std::int64_t here = std::min(lanes, row - z);
          Range known;
          for (std::int64_t y = 0; y < n; ++y) {
            T least = Rule::none;
            for (std::int64_t i = 0; i < here; ++i) {
              from[y * lanes + i] = to[y * row + i];
              least = std::min(least, to[y * row + i]);
            }
            std::fill_n(from + y * lanes + here, lanes - here, T(0));
            if (least < Rule::none) known.add(y);
          }
          for (std::int64_t y = 0; y < n; ++y) {
            alignas(64) T best[lanes];
            outward(from + y * lanes, lanes, known.ways(y, y), 1, best);
            std::copy_n(best, here, to + y * row);
          }
        }
    });
  }

  Rule rule_;
  Shape3 n_;
  Buffer<T> values_;
};

// One of two masks, cut to the box that holds both, with a voxel around it on each axis that the
// image has.
class Pair {
 public:
  // a, b: bool of `axes`' shape
  Pair(const Axes& axes, const bool* a, const bool* b) : real_(axes.real) {
    const Shape3 low = box(axes.shape, a, b);
    if (empty()) return;
    for (std::size_t k = 0; k < 3; ++k) size[k] = n_[k] + 2 * static_cast<std::int64_t>(real_[k]);
    for (auto& [edges, mask] : {std::pair(&first, a), std::pair(&second, b)})
      *edges = edges_of(axes.shape, mask, low);
  }
  bool empty() const { return n_[0] == 0; }

  Shape3 size{0, 0, 0};
  std::vector<std::uint8_t> first, second;  // their surfaces

 private:
  Shape3 box(const Shape3& image, const bool* a, const bool* b) {
    const std::int64_t row = image[2];
    Shape3 low{image[0], image[1], 0}, high{-1, -1, row - 1};
    std::vector<std::uint8_t> column(static_cast<std::size_t>(row));
    for (std::int64_t x = 0; x < image[0]; ++x)
      for (std::int64_t y = 0; y < image[1]; ++y, a += row, b += row) {
        std::uint8_t any = 0;
        for (std::int64_t z = 0; z < row; ++z)
          any |= static_cast<std::uint8_t>(a[z]) | static_cast<std::uint8_t>(b[z]);
        if (!any) continue;
        for (std::int64_t z = 0; z < row; ++z)
          column[static_cast<std::size_t>(z)] |=
              static_cast<std::uint8_t>(a[z]) | static_cast<std::uint8_t>(b[z]);
        low[0] = std::min(low[0], x), high[0] = x;
        low[1] = std::min(low[1], y), high[1] = std::max(high[1], y);
      }
    if (high[0] < 0) return low;
    while (!column[static_cast<std::size_t>(low[2])]) ++low[2];
    while (!column[static_cast<std::size_t>(high[2])]) --high[2];
    for (std::size_t k = 0; k < 3; ++k) n_[k] = high[k] - low[k] + 1;
    return low;
  }

  std::vector<std::uint8_t> edges_of(const Shape3& image, const bool* mask,
                                     const Shape3& low) const {
    // An axis that the image lacks has each voxel for its own neighbour.
    const std::int64_t z = 1, y = real_[1] ? size[2] : 0, x = real_[0] ? size[1] * size[2] : 0;
    const std::int64_t first = x + y + z;
    const auto all = static_cast<std::size_t>(size[0] * size[1] * size[2]);
    std::vector<std::uint8_t> padded(all), edges(all);
    const auto each_row = [&](const auto& f) {
      for (std::int64_t i = 0; i < n_[0]; ++i)
        for (std::int64_t j = 0; j < n_[1]; ++j)
          f(first + (i * size[1] + j) * size[2],
            ((i + low[0]) * image[1] + j + low[1]) * image[2] + low[2]);
    };
    each_row([&](std::int64_t to, std::int64_t from) {
      std::copy_n(mask + from, n_[2], padded.data() + to);
    });
    each_row([&](std::int64_t to, std::int64_t) {
      const std::uint8_t* m = padded.data() + to;
      std::uint8_t* e = edges.data() + to;
      for (std::int64_t k = 0; k < n_[2]; ++k)
        e[k] = m[k] & ~(m[k - x] & m[k + x] & m[k - y] & m[k + y] & m[k - z] & m[k + z]);
    });
    return edges;
  }

  std::array<bool, 3> real_;
  Shape3 n_{0, 0, 0};  // of the box
};

// f(place) of each place that is set.
template <class F>
void each_set(const std::vector<std::uint8_t>& set, const F& f) {
  const std::uint8_t *begin = set.data(), *end = begin + set.size(), *at = begin;
  while (at < end) {
    at = static_cast<const std::uint8_t*>(std::memchr(at, 1, static_cast<std::size_t>(end - at)));
    if (at == nullptr) return;
    f(at++ - begin);
  }
}
bool any(const std::vector<std::uint8_t>& set) {
  return !set.empty() && std::memchr(set.data(), 1, set.size()) != nullptr;
}

}  // namespace

at::Tensor distance_to(const at::Tensor& set, const std::vector<double>& spacing, Distance metric) {
  at::Tensor out = at::empty(set.sizes(), at::kFloat);
  const at::Tensor is = set.contiguous();
  const Axes axes(set.sizes(), spacing);
  axes.with_rule(metric, axes.shape, [&](const auto& rule) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(is.const_data_ptr<bool>());
    Spread(rule, axes.shape, bytes).along_third(out.mutable_data_ptr<float>());
  });
  return out;
}

SurfaceDistances surface_distances(const at::Tensor& a, const at::Tensor& b,
                                   const std::vector<double>& spacing, Distance metric, bool both) {
  const at::Tensor in_a = a.contiguous(), in_b = b.contiguous();
  const Axes axes(a.sizes(), spacing);
  const Pair pair(axes, in_a.const_data_ptr<bool>(), in_b.const_data_ptr<bool>());
  const auto distances = [&](const std::vector<std::uint8_t>& from,
                             const std::vector<std::uint8_t>& to) {
    std::vector<float> found;
    if (any(from) && any(to))
      axes.with_rule(metric, pair.size, [&](const auto& rule) {
        const Spread spread(rule, pair.size, to.data());
        const std::int64_t row = pair.size[2];
        each_set(from, [&](std::int64_t i) { found.push_back(spread.distance(i / row, i % row)); });
      });
    else
      for (const auto* set : {&from, &to})
        each_set(*set,
                 [&](std::int64_t) { found.push_back(std::numeric_limits<float>::infinity()); });
    return at::tensor(found, at::kFloat);
  };
  return {distances(pair.first, pair.second),
          both ? distances(pair.second, pair.first) : at::Tensor()};
}

}  // namespace sluice::kernels
