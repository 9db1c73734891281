#include "kernels/image/crf.h"

#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/crf_voxel.h"
#include "kernels/image/lattice.h"

namespace sluice {
namespace {

// One CrfCall of [B, K, ...] tensors, where they are.
at::Tensor run(const at::Tensor& a, const at::Tensor& b, double factor, bool backward) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = a.contiguous(), y = b.contiguous(), out = at::empty_like(x);
  const auto call_of = [&](auto type) {
    using T = decltype(type);
    return kernels::CrfCall<T>{x.size(0),
                               x.size(1),
                               x.numel() / x.size(0) / x.size(1),
                               static_cast<T>(factor),
                               x.const_data_ptr<T>(),
                               y.const_data_ptr<T>(),
                               out.mutable_data_ptr<T>()};
  };
  const auto on_host = [&](const auto& call) {
    team_for(call.members * call.n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        backward ? kernels::crf_slope(call, i) : kernels::crf_update(call, i);
    });
  };
  if (x.scalar_type() == at::kDouble && x.is_cuda())
    throw DataError("a random field of float64 runs on the host alone");
  if (x.is_cuda()) {
    const CudaCall cuda(x);
    cuda.require(cuda.table.crf(call_of(float{}), backward, cuda.stream));
  } else if (x.scalar_type() == at::kDouble) {
    on_host(call_of(double{}));
  } else {
    on_host(call_of(float{}));
  }
  return out;
}

struct SavedUpdate {
  at::Tensor q;
  double factor;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::Tensor out = run(q, grads[0], factor, true);
    return {out, at::mul(out, factor)};
  }
};

// softmax(logits + factor message) over the classes. Not LibTorch's: its bits depend on where
// threads cut the voxels.
at::Tensor update(const at::Tensor& logits, const at::Tensor& message, double factor) {
  const at::Tensor q = run(logits.detach(), message.detach(), factor, false);
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
    if (rule.compatibility.defined())
      m = mixed(m, rule.compatibility.to(m.device(), m.scalar_type()));
    q = update(logits, m, rule.update_factor);
  }
  return q;
}

}  // namespace sluice
