#include "kernels/image/crf.h"

#include <ATen/Functions.h>

#include <type_traits>

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/crf_voxel.h"
#include "kernels/image/lattice.h"

namespace sluice {
namespace {

// What one class gets of its neighbours, and how much it counts.
struct Message {
  at::Tensor of;  // [B, K, ...]
  double factor;
};
using Messages = std::vector<Message>;  // one or two

// 16 voxels at a time, the last ones of a member one by one.
template <class T>
void run_here(const kernels::CrfCall<T>& call, bool backward) {
  constexpr int lanes = 16;
  const std::int64_t blocks = (call.n + lanes - 1) / lanes;
  const auto some = [&](auto count, std::int64_t i) {
    constexpr int L = decltype(count)::value;
    backward ? kernels::crf_slope<T, L>(call, i) : kernels::crf_update<T, L>(call, i);
  };
  team_for(call.members * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b / blocks * call.n, i = b % blocks * lanes;
      if (i + lanes <= call.n)
        some(std::integral_constant<int, lanes>(), first + i);
      else
        for (std::int64_t k = i; k < call.n; ++k) some(std::integral_constant<int, 1>(), first + k);
    }
  });
}

// One CrfCall of [B, K, ...] tensors, where they are.
at::Tensor run(const at::Tensor& a, const Messages& messages, bool backward) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = a.contiguous(), out = at::empty_like(x);
  Messages of = messages;
  for (Message& m : of) m.of = m.of.detach().contiguous();
  of.resize(2, {{}, 0});
  const auto call_of = [&](auto type) {
    using T = decltype(type);
    const auto values = [](const Message& m) {
      return m.of.defined() ? m.of.const_data_ptr<T>() : nullptr;
    };
    return kernels::CrfCall<T>{x.size(0),
                               x.size(1),
                               x.numel() / x.size(0) / x.size(1),
                               x.const_data_ptr<T>(),
                               values(of[0]),
                               values(of[1]),
                               static_cast<T>(of[0].factor),
                               static_cast<T>(of[1].factor),
                               out.mutable_data_ptr<T>()};
  };
  if (x.scalar_type() == at::kDouble && x.is_cuda())
    throw DataError("a random field of float64 runs on the host alone");
  if (x.is_cuda()) {
    const CudaCall cuda(x);
    cuda.require(cuda.table.crf(call_of(float{}), backward, cuda.stream));
  } else if (x.scalar_type() == at::kDouble) {
    run_here(call_of(double{}), backward);
  } else {
    run_here(call_of(float{}), backward);
  }
  return out;
}

struct SavedUpdate {
  at::Tensor q;
  std::vector<double> factors;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    std::vector<at::Tensor> out{run(q, {{grads[0], 1}}, true)};
    for (const double factor : factors) out.push_back(at::mul(out[0], factor));
    return out;
  }
};

// softmax(logits + sum_m factor_m m) over the classes. Not LibTorch's: its bits depend on where
// threads cut the voxels.
at::Tensor update(const at::Tensor& logits, const Messages& messages) {
  const at::Tensor q = run(logits.detach(), messages, false);
  SavedUpdate saved{q.detach(), {}};
  std::vector<at::Tensor> from{logits};
  for (const Message& m : messages) {
    from.push_back(m.of);
    saved.factors.push_back(m.factor);
  }
  attach("CrfBackward", {q}, from, std::move(saved));
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
  at::Tensor q = update(logits, {});
  if (rule.iterations == 0) return q;
  const at::Tensor places = coordinates(image);
  const auto axes = static_cast<std::size_t>(places.size(1));
  std::vector<double> sigmas(axes, rule.bilateral_spatial_sigma);
  sigmas.resize(axes + image.size(1), rule.bilateral_color_sigma);
  const Lattices bilateral(at::cat({places, image.detach()}, 1), sigmas),
      gaussian(places, std::vector<double>(axes, rule.gaussian_spatial_sigma));
  for (std::int64_t i = 0; i < rule.iterations; ++i) {
    const at::Tensor near = bilateral.filter(q), far = gaussian.filter(q);
    Messages messages{{near, rule.update_factor * rule.bilateral_weight},
                      {far, rule.update_factor * rule.gaussian_weight}};
    if (rule.compatibility.defined())
      messages = {{mixed(at::add(near.mul(rule.bilateral_weight), far, rule.gaussian_weight),
                         rule.compatibility.to(near.device(), near.scalar_type())),
                   rule.update_factor}};
    q = update(logits, messages);
  }
  return q;
}

}  // namespace sluice
