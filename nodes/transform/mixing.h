// What mix_up, cut_mix and cut_out share: a weight and a partner for each member of a batch.
#pragma once

#include <ATen/Functions.h>

#include <cmath>
#include <numeric>

#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {

// Gamma(a, 1) (Marsaglia and Tsang 2000).
inline double draw_gamma(Random& random, double a) {
  if (a < 1) return draw_gamma(random, a + 1) * std::pow(1 - random.uniform(), 1 / a);
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(), t = 1 + c * x, v = t * t * t;
    if (v > 0 && std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}
inline double draw_beta(Random& random, double a) {
  const double x = draw_gamma(random, a), y = draw_gamma(random, a);
  return x + y > 0 ? x / (x + y) : random.chance(0.5);
}

struct MixParams {
  std::vector<std::string> keys{"image"};
  double alpha = 1;
  std::optional<std::int64_t> batch_size;
  bool allow_missing_keys = false;
};

template <class Params>
Spec mix_spec(std::string name, std::string does, std::string keys) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("keys", &Params::keys, std::move(keys))
      .param("alpha", &Params::alpha, "Weights are drawn from Beta(alpha, alpha), one a member.")
      .above(0)
      .param("batch_size", &Params::batch_size,
             "The batch's members, if others are to be refused; null: any number.")
      .at_least(1)
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
      .random()
      .any_device();
  return s;
}

// What is drawn for a batch of `members` [N, C, ...] with `extents`.
struct Mix {
  std::vector<double> weight;
  std::vector<std::int64_t> partner, corner;

  Mix() = default;
  Mix(Random& random, double alpha, std::int64_t members, at::IntArrayRef extents) {
    const auto n = static_cast<std::size_t>(members);
    for (std::size_t i = 0; i < n; ++i)
      weight.push_back(static_cast<float>(draw_beta(random, alpha)));
    const Permutation order(n, random.bits64());
    for (std::size_t i = 0; i < n; ++i) partner.push_back(static_cast<std::int64_t>(order(i)));
    for (const std::int64_t d : extents)
      corner.push_back(static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(d))));
  }

  // w x + (1 - w) x[partner], of a field whose first axis is the batch's.
  at::Tensor mixed(const at::Tensor& x) const {
    const at::Tensor w = weights(x);
    return w * x + (1 - w) * others(x);
  }
  at::Tensor others(const at::Tensor& x) const {
    return x.index_select(0, at::tensor(partner).to(x.device()));
  }
  at::Tensor weights(const at::Tensor& x) const {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
    shape[0] = x.size(0);
    return at::tensor(weight).to(x.options().dtype(at::kFloat)).view(shape);
  }
  // x with each member's box filled from `other`.
  at::Tensor cut(const at::Tensor& x, const at::Tensor& other) const {
    at::Tensor out = x.clone();
    for (std::int64_t n = 0; n < x.size(0); ++n) box(out, n).copy_(box(other, n));
    return out;
  }
  // Of x [N, C, ...] the box of member i, from the corner on and cut at the border.
  at::Tensor box(const at::Tensor& x, std::int64_t i) const {
    at::Tensor part = x[i];
    const double side = std::sqrt(1 - weight[static_cast<std::size_t>(i)]);
    for (std::int64_t d = 1; d < part.dim(); ++d) {
      const std::int64_t n = x.size(d + 1), from = corner[static_cast<std::size_t>(d - 1)];
      const auto to = static_cast<std::int64_t>(
          std::ceil(static_cast<double>(from) + static_cast<double>(n) * side));
      part = part.narrow(d, from, std::min(to, n) - from);
    }
    return part;
  }
};

struct MixNode : Node {
 protected:
  // `each(field, mix, key)` for the keys that are there, images where they have space.
  template <class Each>
  static void mix_keys(Firing& f, const MixParams& p, bool has_space, Each&& each) {
    mix_keys(f, p, has_space, each, [](Sample&, const Mix&) {});
  }
  // ... and then the rest of the sample.
  template <class Each, class Rest>
  static void mix_keys(Firing& f, const MixParams& p, bool has_space, Each&& each, Rest&& rest) {
    Random random = f.random();
    Sample out = f.in();
    const std::optional<Mix> mix = draw_mix(out, p, random);
    if (!mix) return f.emit_ptr(f.ptr());
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      check(*mix, field.tensor, p.keys[i], has_space);
      each(field, *mix, p.keys[i]);
    });
    rest(out, *mix);
    f.emit(std::move(out));
  }
  static void mix_up(Field& field, const Mix& mix, const std::string& key) {
    check_mixes(field.tensor, key);
    field.tensor = mix.mixed(field.tensor);
  }
  // The batch of the first key that is there; every other must have as many members.
  static std::optional<Mix> draw_mix(const Sample& sample, const MixParams& p, Random& random) {
    for (const std::string& key : p.keys) {
      if (p.allow_missing_keys && !sample.has(key)) continue;
      const at::Tensor& x = sample.tensor(key);
      if (x.dim() < 3) throw shape_error(key, x, ", which is no batch of images");
      if (p.batch_size && x.size(0) != *p.batch_size)
        throw DataError("field \"" + key + "\" has " + std::to_string(x.size(0)) +
                        " members, batch_size is " + std::to_string(*p.batch_size));
      return Mix(random, p.alpha, x.size(0), x.sizes().slice(2));
    }
    return std::nullopt;
  }
  static void check(const Mix& mix, const at::Tensor& x, const std::string& key, bool has_space) {
    const auto n = std::ssize(mix.weight);
    bool fits = x.dim() > 0 && x.size(0) == n;
    if (has_space) {
      fits = fits && x.dim() == std::ssize(mix.corner) + 2;
      for (std::size_t d = 0; fits && d < mix.corner.size(); ++d)
        fits = mix.corner[d] < x.size(static_cast<std::int64_t>(d) + 2);
    }
    if (!fits)
      throw DataError("field \"" + key + "\" of shape " + list_text(x.sizes()) +
                      " does not go with a batch of " + std::to_string(n) + " members");
  }
  // What is mixed must be numbers that can be: a class index between two classes is none.
  static void check_mixes(const at::Tensor& x, const std::string& key) {
    if (!x.is_floating_point())
      throw DataError("field \"" + key +
                      "\" holds whole numbers, which cannot be mixed: labels "
                      "must be shares of classes (as_discrete with to_onehot in front of batch)");
  }
};

}  // namespace sluice
