#include "kernels/image/lattice.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/buffer.h"
#include "kernels/base/team.h"
#include "kernels/image/lattice_point.h"

namespace sluice {
namespace {

using Index = std::int32_t;
constexpr Index none = -1;

// Numbers of vertices by their keys of d numbers, in the order in which they are first asked for.
class VertexTable {
 public:
  explicit VertexTable(int d) : d_(d) { places_.assign(1024, none); }

  Index size() const { return static_cast<Index>(keys_.size() / d_); }
  const std::int32_t* key(Index v) const { return keys_.data() + static_cast<std::size_t>(v) * d_; }

  // D: the numbers of a key; 0: told at run time.
  template <int D>
  Index find(const std::int32_t* key) const {
    return places_[place<D>(key)];
  }
  template <int D>
  Index find_or_add(const std::int32_t* key) {
    std::size_t at = place<D>(key);
    if (places_[at] != none) return places_[at];
    if (2 * keys_.size() >= places_.size() * d_) {
      grow<D>();
      at = place<D>(key);
    }
    const Index v = size();
    keys_.insert(keys_.end(), key, key + d_);
    return places_[at] = v;
  }

 private:
  // Where the key stands, or would.
  template <int D>
  std::size_t place(const std::int32_t* key) const {
    const int d = D > 0 ? D : d_;
    const auto same = [&](const std::int32_t* other) {
      bool equal = true;
      for (int i = 0; i < d; ++i) equal &= key[i] == other[i];
      return equal;
    };
    std::uint64_t h = 0;
    for (int i = 0; i < d; ++i) h = (h ^ static_cast<std::uint32_t>(key[i])) * 0x9e3779b97f4a7c15u;
    const std::size_t mask = places_.size() - 1;
    std::size_t at = (h >> 32) & mask;
    while (places_[at] != none && !same(keys_.data() + static_cast<std::size_t>(places_[at]) * d))
      at = (at + 1) & mask;
    return at;
  }
  template <int D>
  void grow() {
    places_.assign(2 * places_.size(), none);
    for (Index v = 0; v < size(); ++v) places_[place<D>(key(v))] = v;
  }

  int d_;
  std::vector<std::int32_t> keys_;
  std::vector<Index> places_;
};

}  // namespace

class Lattice {
 public:
  // features [F, N], contiguous.
  Lattice(const at::Tensor& features, const std::vector<double>& sigmas)
      : d_(static_cast<int>(features.size(0))), n_(features.size(1)) {
    if (d_ > kernels::lattice_most)
      throw DataError("a lattice takes at most " + std::to_string(kernels::lattice_most) +
                      " features, found " + std::to_string(d_));
    if (n_ * uses() >= std::int64_t{1} << 32)
      throw DataError("an image of " + std::to_string(n_) + " voxels is too large for a lattice");
    if (features.scalar_type() == at::kDouble)
      build(features.const_data_ptr<double>(), sigmas);
    else
      build(features.const_data_ptr<float>(), sigmas);
    const Buffer<float> ones(n_);
    std::fill_n(ones.data(), n_, 1.F);
    norm_ = Buffer<float>(n_);
    pass<1>(ones.data(), norm_.data(), 1, false);
  }

  // [C, N] -> [C, N]; adjoint: from the gradient of what comes out to that of what goes in.
  template <class T>
  void filter(const T* x, T* y, std::int64_t channels, bool adjoint) const {
    const Buffer<T> shares(adjoint ? channels * n_ : 0);
    if (adjoint) divide(x, shares.data(), channels);
    const T* from = adjoint ? shares.data() : x;
    switch (channels) {
      case 1:
        pass<1>(from, y, channels, adjoint);
        break;
      case 2:
        pass<2>(from, y, channels, adjoint);
        break;
      case 3:
        pass<3>(from, y, channels, adjoint);
        break;
      default:
        pass<0>(from, y, channels, adjoint);
    }
    if (!adjoint) divide(y, y, channels);
  }

 private:
  std::int64_t uses() const { return d_ + 1; }  // of vertices by a voxel

  template <class T>
  void divide(const T* x, T* y, std::int64_t channels) const {
    team_for(n_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = begin; i < end; ++i)
          y[c * n_ + i] = x[c * n_ + i] / static_cast<T>(norm_[i]);
    });
  }

  // ---- building ----

  template <class T>
  void build(const T* features, const std::vector<double>& sigmas) {
    const int parts = static_cast<int>(std::clamp<std::int64_t>(n_ / 1024, 1, team_size()));
    vertex_ = Buffer<Index>(n_ * uses());
    weight_ = Buffer<float>(n_ * uses());
    std::vector<VertexTable> tables(parts, VertexTable(d_));
    team_run(parts, [&](int part) {
      const auto place = [&](auto axes) {
        this->place<decltype(axes)::value>(features, sigmas, n_ * part / parts,
                                           n_ * (part + 1) / parts, tables[part]);
      };
      switch (d_) {
        case 2:
          return place(std::integral_constant<int, 2>());
        case 3:
          return place(std::integral_constant<int, 3>());
        case 4:
          return place(std::integral_constant<int, 4>());
        default:
          return place(std::integral_constant<int, 0>());
      }
    });
    const VertexTable all = joined(tables);
    vertices_ = all.size();
    sort_uses(parts);
    find_neighbours(all);
  }

  template <int D, class T>
  void place(const T* features, const std::vector<double>& sigmas, std::int64_t begin,
             std::int64_t end, VertexTable& table) {
    kernels::LatticePoint<D> point, last;
    std::int32_t key[kernels::LatticePoint<D>::most];
    for (std::int64_t i = begin; i < end; ++i) {
      if (!point.set(d_, [&](int f) { return features[f * n_ + i] / sigmas[f]; }))
        throw DataError("a feature divided by its sigma is not finite, or too large for a lattice");
      const bool known = i > begin && point.same_simplex(last);  // as voxels often are
      for (int k = 0; k <= point.d; ++k) {
        for (int f = 0; f < point.d && !known; ++f) key[f] = point.key(k, f);
        vertex_[i * uses() + k] = known ? vertex_[(i - 1) * uses() + k] : table.find_or_add<D>(key);
        weight_[i * uses() + k] = static_cast<float>(point.weight[k]);
      }
      last = point;
    }
  }

  // One table of the parts' tables, in their order; voxels get its numbers.
  VertexTable joined(std::vector<VertexTable>& tables) {
    VertexTable all = std::move(tables[0]);
    const auto parts = static_cast<std::int64_t>(tables.size());
    std::vector<std::vector<Index>> number(parts);
    for (std::int64_t part = 1; part < parts; ++part)
      for (Index v = 0; v < tables[part].size(); ++v)
        number[part].push_back(all.find_or_add<0>(tables[part].key(v)));
    team_run(static_cast<int>(parts), [&](int part) {
      if (part == 0) return;
      for (std::int64_t e = n_ * part / parts * uses(); e < n_ * (part + 1) / parts * uses(); ++e)
        vertex_[e] = number[part][vertex_[e]];
    });
    return all;
  }

  // The voxels that use each vertex, in their order.
  void sort_uses(int parts) {
    std::vector<std::vector<std::uint32_t>> next(parts);
    const auto each_use = [&](int part, auto&& body) {
      for (std::int64_t i = n_ * part / parts; i < n_ * (part + 1) / parts; ++i)
        for (std::int64_t e = i * uses(); e < (i + 1) * uses(); ++e) body(i, e);
    };
    team_run(parts, [&](int part) {
      next[part].assign(vertices_, 0);
      each_use(part, [&](std::int64_t, std::int64_t e) { ++next[part][vertex_[e]]; });
    });
    first_.assign(vertices_ + 1, 0);
    std::uint32_t total = 0;
    for (Index v = 0; v < vertices_; ++v) {
      first_[v] = total;
      for (auto& counts : next) {
        const std::uint32_t count = counts[v];
        counts[v] = total;
        total += count;
      }
    }
    first_[vertices_] = total;
    user_ = Buffer<std::uint32_t>(n_ * uses());
    user_weight_ = Buffer<float>(n_ * uses());
    team_run(parts, [&](int part) {
      each_use(part, [&](std::int64_t i, std::int64_t e) {
        const std::uint32_t at = next[part][vertex_[e]]++;
        user_[at] = static_cast<std::uint32_t>(i);
        user_weight_[at] = weight_[e];
      });
    });
  }

  // The vertex before and the one after each, along each axis; `vertices_` where there is none.
  void find_neighbours(const VertexTable& all) {
    before_.assign(uses() * vertices_, vertices_);
    after_.assign(uses() * vertices_, vertices_);
    team_for(vertices_, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> key(d_);
      for (int axis = 0; axis <= d_; ++axis)
        for (auto v = static_cast<Index>(begin); v < end; ++v) {
          for (int f = 0; f < d_; ++f) key[f] = all.key(v)[f] + (f == axis ? -d_ : 1);
          const Index next = all.find<0>(key.data());
          if (next == none) continue;
          after_[axis * static_cast<std::int64_t>(vertices_) + v] = next;
          before_[axis * static_cast<std::int64_t>(vertices_) + next] = v;
        }
    });
  }

  // ---- filtering ----

  // Splat, blur, slice, without the division; C: channels, 0: told at run time. Reversed, the axes
  // are blurred in the opposite order: the adjoint.
  template <int C, class T>
  void pass(const T* x, T* y, std::int64_t given, bool reversed) const {
    const std::int64_t channels = C > 0 ? C : given, V = vertices_;
    Buffer<T> value((V + 1) * channels), blurred((V + 1) * channels);
    for (std::int64_t c = 0; c < channels; ++c)  // of the vertex that is not there
      value[V * channels + c] = blurred[V * channels + c] = 0;
    team_for(V, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) {
        T* to = value.data() + v * channels;
        for (std::int64_t c = 0; c < channels; ++c) {
          T sum = 0;
          for (std::uint32_t u = first_[v]; u < first_[v + 1]; ++u)
            sum += static_cast<T>(user_weight_[u]) * x[c * n_ + user_[u]];
          to[c] = sum;
        }
      }
    });
    for (int a = 0; a <= d_; ++a) {
      const std::int64_t axis = reversed ? d_ - a : a;
      const Index *before = before_.data() + axis * V, *after = after_.data() + axis * V;
      team_for(V, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t v = begin; v < end; ++v) {
          const T *here = value.data() + v * channels, *left = value.data() + before[v] * channels,
                  *right = value.data() + after[v] * channels;
          for (std::int64_t c = 0; c < channels; ++c)
            blurred[v * channels + c] = T(.5) * here[c] + T(.25) * (left[c] + right[c]);
        }
      });
      std::swap(value, blurred);
    }
    team_for(n_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t c = 0; c < channels; ++c) {
          T sum = 0;
          for (std::int64_t e = i * uses(); e < (i + 1) * uses(); ++e)
            sum += static_cast<T>(weight_[e]) * value[vertex_[e] * channels + c];
          y[c * n_ + i] = sum;
        }
    });
  }

  int d_;
  std::int64_t n_;
  Index vertices_ = 0;
  Buffer<Index> vertex_;              // [N, d + 1]
  Buffer<float> weight_;              // [N, d + 1]
  std::vector<std::uint32_t> first_;  // [V + 1]: where its users begin
  Buffer<std::uint32_t> user_;        // [N (d + 1)]
  Buffer<float> user_weight_;
  std::vector<Index> before_, after_;  // [d + 1, V]
  Buffer<float> norm_;                 // of each voxel: what ones come to
};

namespace {

using Batch = std::shared_ptr<const std::vector<Lattice>>;

at::Tensor filtered(const Batch& lattices, const at::Tensor& given, bool adjoint) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = given.contiguous(), y = at::empty_like(x);
  const std::int64_t channels = x.size(1), member = x.numel() / x.size(0);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    const auto run = [&](auto type) {
      using T = decltype(type);
      (*lattices)[b].filter(x.const_data_ptr<T>() + b * member,
                            y.mutable_data_ptr<T>() + b * member, channels, adjoint);
    };
    if (x.scalar_type() == at::kDouble)
      run(double{});
    else
      run(float{});
  }
  return y;
}

struct SavedFilter {
  Batch lattices;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    return {filtered(lattices, grads[0], true)};
  }
};

}  // namespace

Lattices::Lattices(const at::Tensor& features, const std::vector<double>& sigmas) {
  const at::NoGradGuard no_grad;
  const at::Tensor f = features.detach().flatten(2).contiguous();
  auto all = std::make_shared<std::vector<Lattice>>();
  for (std::int64_t b = 0; b < f.size(0); ++b) all->emplace_back(f[b], sigmas);
  of_ = std::move(all);
}

at::Tensor Lattices::filter(const at::Tensor& image) const {
  const at::Tensor out = filtered(of_, image.detach(), false);
  attach("LatticeBackward", {out}, {image}, SavedFilter{of_});
  return out;
}

at::Tensor coordinates(const at::Tensor& image) {
  const std::int64_t axes = image.dim() - 2;
  auto shape = image.sizes().vec();
  shape[1] = 1;
  std::vector<at::Tensor> along;
  for (std::int64_t a = 2; a < axes + 2; ++a) {
    std::vector<std::int64_t> one(axes + 2, 1);
    one[a] = shape[a];
    along.push_back(at::arange(shape[a], image.detach().options()).view(one).expand(shape));
  }
  return at::cat(along, 1);
}

}  // namespace sluice
