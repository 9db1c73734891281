#include "kernels/image/crf.h"

#include <ATen/Functions.h>

#include <limits>

#include "kernels/base/autograd.h"
#include "kernels/base/lanes.h"
#include "kernels/base/team.h"
#include "kernels/image/lattice.h"

namespace sluice {
namespace {

// f(x, y, z, n) over the voxels of each member of [B, K, voxels]: pointers to a voxel's first
// class, whose classes are n apart.
template <class F>
void each_voxel(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z, const F& f) {
  const auto go = [&](auto type) {
    using T = decltype(type);
    const std::int64_t n = x.numel() / x.size(0) / x.size(1), member = n * x.size(1);
    team_for(x.size(0) * n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = i / n * member + i % n;
        f(x.const_data_ptr<T>() + at, y.const_data_ptr<T>() + at, z.mutable_data_ptr<T>() + at, n);
      }
    });
  };
  if (x.scalar_type() == at::kDouble)
    go(double{});
  else
    go(float{});
}

struct SavedUpdate {
  at::Tensor q;
  double factor;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::Tensor out = at::empty_like(q);
    const std::int64_t K = q.size(1);
    each_voxel(q, grads[0].contiguous(), out, [&](const auto* p, const auto* g, auto* d, auto n) {
      std::decay_t<decltype(*d)> mean = 0;
      for (std::int64_t k = 0; k < K; ++k) mean += p[k * n] * g[k * n];
      for (std::int64_t k = 0; k < K; ++k) d[k * n] = p[k * n] * (g[k * n] - mean);
    });
    return {out, at::mul(out, factor)};
  }
};

// softmax(logits + factor message) over the classes. Not LibTorch's: its bits depend on where
// threads cut the voxels.
at::Tensor update(const at::Tensor& logits, const at::Tensor& message, double factor) {
  const at::Tensor x = logits.detach().contiguous(), m = message.detach().contiguous(),
                   q = at::empty_like(x);
  const std::int64_t K = x.size(1);
  each_voxel(x, m, q, [&](const auto* l, const auto* from, auto* p, auto n) {
    using T = std::decay_t<decltype(*p)>;
    T most = -std::numeric_limits<T>::infinity(), sum = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      p[k * n] = kernels::mad(static_cast<T>(factor), from[k * n], l[k * n]);
      most = std::max(most, p[k * n]);
    }
    for (std::int64_t k = 0; k < K; ++k) {
      p[k * n] = kernels::power_of_two((p[k * n] - most) * static_cast<T>(M_LOG2E));
      sum += p[k * n];
    }
    for (std::int64_t k = 0; k < K; ++k) p[k * n] /= sum;
  });
  attach("CrfBackward", {q}, {logits, message}, SavedUpdate{q.detach(), factor});
  return q;
}

// Class c gets sum_k m_k M[k][c].
at::Tensor mixed(const at::Tensor& m, const at::Tensor& compatibility) {
  std::vector<std::int64_t> shape(m.dim(), 1);
  shape[1] = m.size(1);
  at::Tensor sum = at::mul(m.narrow(1, 0, 1), compatibility[0].view(shape));
  for (std::int64_t k = 1; k < m.size(1); ++k)
    sum = at::add(sum, at::mul(m.narrow(1, k, 1), compatibility[k].view(shape)));
  return sum;
}

}  // namespace

at::Tensor crf(const at::Tensor& logits, const at::Tensor& image, const CrfRule& rule) {
  at::Tensor q = update(logits, at::zeros_like(logits.detach()), 0);
  if (rule.iterations == 0) return q;
  const at::Tensor places = coordinates(image);
  const auto axes = static_cast<std::size_t>(places.size(1));
  std::vector<double> sigmas(axes, rule.bilateral_spatial_sigma);
  sigmas.resize(axes + image.size(1), rule.bilateral_color_sigma);
  const Lattices bilateral(at::cat({places, image.detach()}, 1), sigmas),
      gaussian(places, std::vector<double>(axes, rule.gaussian_spatial_sigma));
  for (std::int64_t i = 0; i < rule.iterations; ++i) {
    at::Tensor m = at::add(bilateral.filter(q).mul(rule.bilateral_weight), gaussian.filter(q),
                           rule.gaussian_weight);
    if (rule.compatibility.defined()) m = mixed(m, rule.compatibility.to(m.scalar_type()));
    q = update(logits, m, rule.update_factor);
  }
  return q;
}

}  // namespace sluice
