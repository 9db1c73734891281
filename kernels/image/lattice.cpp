#include "kernels/image/lattice.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/lattice_voxel.h"

namespace sluice {
namespace {

using Index = std::int32_t;
constexpr Index none = -1;

// Numbers of vertices by their keys of d numbers, in the order in which they are first asked for.
class VertexTable {
 public:
  explicit VertexTable(int d) : d_(d) { places_.assign(1024, none); }
  // Of several tables at once, each numbered after those before it.
  template <int D>
  static VertexTable joined(const std::vector<VertexTable>& tables,
                            std::vector<std::vector<Index>>& numbers);

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
    if (v == std::numeric_limits<Index>::max()) throw DataError("a lattice of too many vertices");
    keys_.insert(keys_.end(), key, key + d_);
    return places_[at] = v;
  }

 private:
  // Where the key stands, or would.
  template <int D>
  std::size_t place(const std::int32_t* key) const {
    const int d = D > 0 ? D : d_;
    const std::size_t mask = places_.size() - 1;
    std::size_t at = kernels::lattice_hash(key, d) & mask;
    while (places_[at] != none &&
           !kernels::same_key(key, keys_.data() + static_cast<std::size_t>(places_[at]) * d, d))
      at = (at + 1) & mask;
    return at;
  }
  template <int D>
  void grow() {
    places_.assign(2 * places_.size(), none);
    for (Index v = 0; v < size(); ++v) places_[place<D>(key(v))] = v;
  }

  void reserve(std::size_t vertices) {
    while (places_.size() < 2 * vertices) places_.resize(2 * places_.size());
    team_for(static_cast<std::int64_t>(places_.size()), [&](std::int64_t begin, std::int64_t end) {
      std::fill(places_.begin() + begin, places_.begin() + end, none);
    });
  }
  // Where the key of vertex v stands, once v or one before it is there. From many threads at once.
  template <int D>
  std::size_t claim(Index v) {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = kernels::lattice_hash(key(v), d_) & mask;; at = (at + 1) & mask) {
      const std::atomic_ref<Index> place(places_[at]);
      Index there = none;
      if (place.compare_exchange_strong(there, v)) return at;
      if (!kernels::same_key(key(v), key(there), D > 0 ? D : d_)) continue;
      while (there > v && !place.compare_exchange_weak(there, v)) {
      }
      return at;
    }
  }

  int d_;
  std::vector<std::int32_t> keys_;
  std::vector<Index> places_;
};

// All keys stand one after the other; the first of equal ones stands for them and is counted.
template <int D>
VertexTable VertexTable::joined(const std::vector<VertexTable>& tables,
                                std::vector<std::vector<Index>>& numbers) {
  const int parts = static_cast<int>(tables.size());
  std::vector<std::size_t> begin{0};
  for (const VertexTable& table : tables) begin.push_back(begin.back() + table.size());
  if (begin.back() > std::numeric_limits<Index>::max())
    throw DataError("a lattice of too many vertices");
  VertexTable all(tables[0].d_), kept(all.d_);
  all.keys_.resize(begin.back() * all.d_);
  all.reserve(begin.back());
  std::vector<std::size_t> place(begin.back()), first(parts + 1);
  const auto each = [&](int part, auto&& body) {
    for (std::size_t v = begin[part]; v < begin[part + 1]; ++v) body(static_cast<Index>(v));
  };
  team_run(parts, [&](int part) {
    std::copy(tables[part].keys_.begin(), tables[part].keys_.end(),
              all.keys_.begin() + begin[part] * all.d_);
  });
  team_run(parts, [&](int part) { each(part, [&](Index v) { place[v] = all.claim<D>(v); }); });
  team_run(parts, [&](int part) {
    each(part, [&](Index v) { first[part + 1] += all.places_[place[v]] == v; });
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  kept.keys_.resize(first[parts] * all.d_);
  std::vector<Index> number(begin.back());
  team_run(parts, [&](int part) {
    auto next = static_cast<Index>(first[part]);
    each(part, [&](Index v) {
      if (all.places_[place[v]] != v) return;
      std::copy_n(all.key(v), all.d_, kept.keys_.begin() + static_cast<std::size_t>(next) * all.d_);
      number[v] = next++;
    });
  });
  team_run(parts, [&](int part) {
    each(part, [&](Index v) { numbers[part].push_back(number[all.places_[place[v]]]); });
  });
  team_for(static_cast<std::int64_t>(all.places_.size()), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i)
      if (Index& v = all.places_[i]; v != none) v = number[v];
  });
  kept.places_ = std::move(all.places_);
  return kept;
}

}  // namespace

class Lattice {
 public:
  // features [F, N], contiguous.
  Lattice(const at::Tensor& features, const std::vector<double>& sigmas)
      : d_(static_cast<int>(features.size(0))), n_(features.size(1)), on_(features.device()) {
    if (d_ > kernels::lattice_most)
      throw DataError("a lattice takes at most " + std::to_string(kernels::lattice_most) +
                      " features, found " + std::to_string(d_));
    if (n_ * uses() >= std::int64_t{1} << (on_.is_cuda() ? 31 : 32))
      throw DataError("an image of " + std::to_string(n_) + " voxels is too large for a lattice");
    if (on_.is_cuda() && features.scalar_type() == at::kDouble)
      throw DataError("a lattice of float64 runs on the host alone");
    vertex_ = numbers(at::kInt, n_ * uses());
    weight_ = numbers(at::kFloat, n_ * uses());
    if (on_.is_cuda())
      build_there(features, sigmas);
    else if (features.scalar_type() == at::kDouble)
      build(features.const_data_ptr<double>(), sigmas);
    else
      build(features.const_data_ptr<float>(), sigmas);
    const at::Tensor sums = numbers(at::kFloat, n_);
    pass<float>(at::ones({1, n_}, sums.options()), sums.view({1, n_}), false);
    norm_ = sums;
  }

  // [C, N] to [C, N], contiguous; adjoint: from the gradient of what comes out to that of what goes
  // in.
  void filter(const at::Tensor& x, const at::Tensor& out, bool adjoint) const {
    const at::Tensor from = adjoint ? at::div(x, norm_) : x;
    if (x.scalar_type() == at::kDouble)
      pass<double>(from, out, adjoint);
    else
      pass<float>(from, out, adjoint);
  }

 private:
  std::int64_t uses() const { return d_ + 1; }  // of vertices by a voxel
  at::Tensor numbers(at::ScalarType type, std::int64_t n) const {
    return at::empty({n}, at::dtype(type).device(on_));
  }
  // Counts up to 2^32, in a tensor of int32.
  static std::uint32_t* words(const at::Tensor& t) {
    return reinterpret_cast<std::uint32_t*>(t.mutable_data_ptr<std::int32_t>());
  }

  // ---- building on the host ----

  template <class T>
  void build(const T* features, const std::vector<double>& sigmas) {
    const auto build_for = [&](auto axes) { this->build<decltype(axes)::value>(features, sigmas); };
    switch (d_) {
      case 2:
        return build_for(std::integral_constant<int, 2>());
      case 3:
        return build_for(std::integral_constant<int, 3>());
      case 4:
        return build_for(std::integral_constant<int, 4>());
      default:
        return build_for(std::integral_constant<int, 0>());
    }
  }

  template <int D, class T>
  void build(const T* features, const std::vector<double>& sigmas) {
    const int parts = static_cast<int>(std::clamp<std::int64_t>(n_ / 1024, 1, team_size()));
    std::vector<VertexTable> tables(parts, VertexTable(d_));
    team_run(parts, [&](int part) {
      place<D>(features, sigmas, n_ * part / parts, n_ * (part + 1) / parts, tables[part]);
    });
    const VertexTable all = joined<D>(tables);
    vertices_ = all.size();
    sort_uses(parts);
    find_neighbours<D>(all);
  }

  template <int D, class T>
  void place(const T* features, const std::vector<double>& sigmas, std::int64_t begin,
             std::int64_t end, VertexTable& table) {
    auto* const vertex = vertex_.mutable_data_ptr<Index>();
    auto* const weight = weight_.mutable_data_ptr<float>();
    kernels::LatticePoint<D> point, last;
    std::int32_t key[kernels::LatticePoint<D>::most];
    for (std::int64_t i = begin; i < end; ++i) {
      if (!point.set(d_, [&](int f) { return features[f * n_ + i] / sigmas[f]; })) refuse_feature();
      const bool known = i > begin && point.same_simplex(last);  // as voxels often are
      for (int k = 0; k <= point.d; ++k) {
        for (int f = 0; f < point.d && !known; ++f) key[f] = point.key(k, f);
        vertex[i * uses() + k] = known ? vertex[(i - 1) * uses() + k] : table.find_or_add<D>(key);
        weight[i * uses() + k] = static_cast<float>(point.weight[k]);
      }
      last = point;
    }
  }

  // One table of the parts' tables, in their order; voxels get its numbers.
  template <int D>
  VertexTable joined(std::vector<VertexTable>& tables) {
    const int parts = static_cast<int>(tables.size());
    if (parts == 1) return std::move(tables[0]);
    std::vector<std::vector<Index>> number(parts);
    VertexTable all = VertexTable::joined<D>(tables, number);
    team_run(parts, [&](int part) {
      auto* const vertex = vertex_.mutable_data_ptr<Index>();
      for (std::int64_t e = n_ * part / parts * uses(); e < n_ * (part + 1) / parts * uses(); ++e)
        vertex[e] = number[part][vertex[e]];
    });
    return all;
  }

  // The voxels that use each vertex, in their order.
  void sort_uses(int parts) {
    const auto* const vertex = vertex_.const_data_ptr<Index>();
    const auto* const weight = weight_.const_data_ptr<float>();
    std::vector<std::vector<std::uint32_t>> next(parts);
    const auto each_use = [&](int part, auto&& body) {
      for (std::int64_t i = n_ * part / parts; i < n_ * (part + 1) / parts; ++i)
        for (std::int64_t e = i * uses(); e < (i + 1) * uses(); ++e) body(i, e);
    };
    team_run(parts, [&](int part) {
      next[part].assign(vertices_, 0);
      each_use(part, [&](std::int64_t, std::int64_t e) { ++next[part][vertex[e]]; });
    });
    first_ = numbers(at::kInt, vertices_ + 1);
    std::uint32_t* const first = words(first_);
    // Uses of the vertices that a thread has, then of those before them.
    std::vector<std::uint32_t> total(parts + 1);
    const auto each_vertex = [&](int part, auto&& body) {
      const std::int64_t all = vertices_;
      for (std::int64_t v = all * part / parts; v < all * (part + 1) / parts; ++v)
        for (auto& counts : next) body(v, counts[v]);
    };
    team_run(parts, [&](int part) {
      std::uint32_t sum = 0;
      each_vertex(part, [&](std::int64_t, std::uint32_t count) { sum += count; });
      total[part + 1] = sum;
    });
    std::partial_sum(total.begin(), total.end(), total.begin());
    team_run(parts, [&](int part) {
      std::uint32_t sum = total[part];
      each_vertex(part, [&](std::int64_t v, std::uint32_t& count) {
        if (&count == &next[0][v]) first[v] = sum;
        sum += std::exchange(count, sum);
      });
    });
    first[vertices_] = total[parts];
    user_ = numbers(at::kInt, n_ * uses());
    user_weight_ = numbers(at::kFloat, n_ * uses());
    std::uint32_t* const user = words(user_);
    auto* const user_weight = user_weight_.mutable_data_ptr<float>();
    team_run(parts, [&](int part) {
      each_use(part, [&](std::int64_t i, std::int64_t e) {
        const std::uint32_t at = next[part][vertex[e]]++;
        user[at] = static_cast<std::uint32_t>(i);
        user_weight[at] = weight[e];
      });
    });
  }

  // The vertex before and the one after each, along each axis; `vertices_` where there is none.
  template <int D>
  void find_neighbours(const VertexTable& all) {
    before_ = numbers(at::kInt, uses() * vertices_);
    after_ = numbers(at::kInt, uses() * vertices_);
    auto* const before = before_.mutable_data_ptr<Index>();
    auto* const after = after_.mutable_data_ptr<Index>();
    team_for(before_.numel(), [&](std::int64_t begin, std::int64_t end) {
      std::fill(before + begin, before + end, vertices_);
      std::fill(after + begin, after + end, vertices_);
    });
    team_for(vertices_, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> key(d_);
      for (int axis = 0; axis <= d_; ++axis)
        for (auto v = static_cast<Index>(begin); v < end; ++v) {
          for (int f = 0; f < d_; ++f) key[f] = all.key(v)[f] + (f == axis ? -d_ : 1);
          const Index next = all.find<D>(key.data());
          if (next == none) continue;
          after[axis * static_cast<std::int64_t>(vertices_) + v] = next;
          before[axis * static_cast<std::int64_t>(vertices_) + next] = v;
        }
    });
  }

  // ---- building on a device ----

  // The same vertices and orders; sums and the sort by vertex, which keeps the uses' order, are
  // LibTorch's.
  void build_there(const at::Tensor& features, const std::vector<double>& sigmas) {
    using kernels::LatticeStage;
    const CudaCall cuda(features);
    const std::int64_t all = n_ * uses();
    kernels::LatticeBuild b;
    b.d = d_;
    b.n = n_;
    std::copy(sigmas.begin(), sigmas.end(), b.sigma);
    for (b.places = 1024; b.places < 2 * all;) b.places *= 2;
    const at::Tensor keys = numbers(at::kInt, all * d_), slot = numbers(at::kInt, all),
                     first = numbers(at::kInt, all), bad = numbers(at::kInt, 1).zero_(),
                     table = numbers(at::kInt, b.places).fill_(-1);
    const auto ints = [](const at::Tensor& t) { return t.mutable_data_ptr<std::int32_t>(); };
    b.features = features.const_data_ptr<float>();
    b.keys = ints(keys);
    b.weight = weight_.mutable_data_ptr<float>();
    b.table = ints(table);
    b.slot = ints(slot);
    b.first = ints(first);
    b.vertex = ints(vertex_);
    b.bad = ints(bad);
    const auto run = [&](LatticeStage stage) {
      cuda.require(cuda.table.lattice_build(b, stage, cuda.stream));
    };
    run(LatticeStage::place);
    if (bad.item<int>() != 0) refuse_feature();
    run(LatticeStage::insert);
    run(LatticeStage::mark);
    const at::Tensor sums = first.cumsum(0, at::kInt);
    vertices_ = sums[-1].item<Index>();
    const at::Tensor use = numbers(at::kInt, vertices_);
    before_ = numbers(at::kInt, uses() * vertices_).fill_(vertices_);
    after_ = numbers(at::kInt, uses() * vertices_).fill_(vertices_);
    b.vertices = vertices_;
    b.sums = sums.const_data_ptr<std::int32_t>();
    b.use = ints(use);
    b.before = ints(before_);
    b.after = ints(after_);
    run(LatticeStage::number);
    run(LatticeStage::neighbours);
    const auto [sorted, order] = at::sort(vertex_, /*stable=*/true, 0, /*descending=*/false);
    const at::Tensor vertices = at::arange(vertices_ + 1, vertex_.options());
    first_ = at::searchsorted(sorted, vertices, /*out_int32=*/true);
    user_ = at::floor_divide(order, uses()).to(at::kInt);
    user_weight_ = weight_.index_select(0, order);
  }
  [[noreturn]] static void refuse_feature() {
    throw DataError("a feature divided by its sigma is not finite, or too large for a lattice");
  }

  // ---- filtering ----

  // Splat, blur, slice, of [C, N]. Reversed, the axes are blurred in the opposite order and nothing
  // is divided: the adjoint.
  template <class T>
  void pass(const at::Tensor& x, const at::Tensor& y, bool reversed) const {
    kernels::LatticeCall<T> call;
    call.d = d_;
    call.n = n_;
    call.channels = x.size(0);
    call.vertices = vertices_;
    call.vertex = vertex_.const_data_ptr<Index>();
    call.weight = weight_.const_data_ptr<float>();
    call.first = words(first_);
    call.user = words(user_);
    call.user_weight = user_weight_.const_data_ptr<float>();
    call.before = before_.const_data_ptr<Index>();
    call.after = after_.const_data_ptr<Index>();
    if (norm_.defined() && !reversed) call.norm = norm_.const_data_ptr<float>();
    const std::int64_t vertices = (static_cast<std::int64_t>(vertices_) + 1) * call.channels;
    at::Tensor value = at::empty({vertices}, x.options()), blurred = at::empty_like(value);
    const auto step = [&](kernels::LatticeWork work, int axis, const at::Tensor& in,
                          const at::Tensor& out) {
      call.in = in.const_data_ptr<T>();
      call.out = out.mutable_data_ptr<T>();
      switch (call.channels) {
        case 1:
          return run<1>(call, work, axis);
        case 2:
          return run<2>(call, work, axis);
        case 3:
          return run<3>(call, work, axis);
        default:
          return run<0>(call, work, axis);
      }
    };
    step(kernels::LatticeWork::splat, 0, x, value);
    for (int a = 0; a <= d_; ++a) {
      step(kernels::LatticeWork::blur, reversed ? d_ - a : a, value, blurred);
      std::swap(value, blurred);
    }
    step(kernels::LatticeWork::slice, 0, value, y);
  }

  // C: channels, 0: told at run time.
  template <int C, class T>
  void run(const kernels::LatticeCall<T>& call, kernels::LatticeWork work, int axis) const {
    if (on_.is_cuda()) return run_there(call, work, axis);
    const std::int64_t channels = C > 0 ? C : call.channels, V = call.vertices;
    if (work == kernels::LatticeWork::slice) {
      team_for(n_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          for (std::int64_t c = 0; c < channels; ++c)
            call.out[c * n_ + i] = kernels::lattice_slice(call, channels, i, c);
      });
      return;
    }
    std::fill_n(call.out + V * channels, channels, T(0));  // of the vertex that is not there
    const auto each = [&](auto&& value) {
      team_for(V, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t v = begin; v < end; ++v)
          for (std::int64_t c = 0; c < channels; ++c) call.out[v * channels + c] = value(v, c);
      });
    };
    if (work == kernels::LatticeWork::splat)
      each([&](auto v, auto c) { return kernels::lattice_splat(call, v, c); });
    else
      each([&](auto v, auto c) { return kernels::lattice_blur(call, channels, axis, v, c); });
  }
  void run_there(const kernels::LatticeCall<float>& call, kernels::LatticeWork work,
                 int axis) const {
    const CudaCall cuda(vertex_);
    cuda.require(cuda.table.lattice(call, work, axis, cuda.stream));
  }
  void run_there(const kernels::LatticeCall<double>&, kernels::LatticeWork, int) const {
    throw DataError("a lattice filters float64 on the host alone");
  }

  int d_;
  std::int64_t n_;
  at::Device on_;
  Index vertices_ = 0;
  at::Tensor vertex_, weight_;             // [N (d + 1)]
  at::Tensor first_, user_, user_weight_;  // [V + 1]: where its users begin; [N (d + 1)]
  at::Tensor before_, after_;              // [(d + 1) V]
  at::Tensor norm_;                        // of each voxel: what ones come to, once it is known
};

namespace {

using Batch = std::shared_ptr<const std::vector<Lattice>>;

at::Tensor filtered(const Batch& lattices, const at::Tensor& given, bool adjoint) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = given.flatten(2).contiguous(), out = at::empty_like(x);
  for (std::int64_t b = 0; b < x.size(0); ++b) (*lattices)[b].filter(x[b], out[b], adjoint);
  return out.view(given.sizes());
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
