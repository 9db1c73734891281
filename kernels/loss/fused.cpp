#include "kernels/loss/fused.h"

#include <ATen/Functions.h>

#include <limits>
#include <numeric>

#include "kernels/base/autograd.h"
#include "kernels/base/simd_math.h"
#include "kernels/base/team.h"

namespace sluice {
namespace {

// log(1 + u) for u in (-1, 1], also where 1 + u is rounded.
template <class V>
SLUICE_INLINE inline V log1p_v(V u) {
  const V t = u + 1.f;
  return log_v(t) + (u - (t - 1.f)) / t;
}

// With s = (1 - 2y) x and the entropy e = max(x, 0) - x y + log(1 + exp(-|x|)):
//
//   loss = sigmoid(s)^gamma e a,  a = y alpha + (1 - y)(1 - alpha)
//   d loss / dx = sigmoid(s)^gamma (gamma sigmoid(-s) (1 - 2y) e + sigmoid(x) - y) a
template <class V>
SLUICE_INLINE inline void focal_voxels(const V& x, const V& y, float gamma, float front, float back,
                                       V& loss, V& slope) {
  const V zero{};
  const V turned = 1.f - 2.f * y, s = x * turned;
  const V from_x = exp_v<V>(x > zero ? -x : x), from_s = exp_v<V>(s > zero ? -s : s);
  const V entropy = (x > zero ? x : zero) - x * y + log1p_v<V>(from_x);
  const V log_wrong = (s > zero ? zero : s) - log1p_v<V>(from_s);
  const V factor = exp_v<V>(log_wrong * gamma) * (y * front + (1.f - y) * back);
  const V high_x = 1.f / (from_x + 1.f), high_s = 1.f / (from_s + 1.f);
  const V sigmoid = x > zero ? high_x : from_x * high_x;
  const V right = s > zero ? from_s * high_s : high_s;
  loss = factor * entropy;
  slope = factor * (gamma * right * turned * entropy + sigmoid - y);
}

// The entropy alone, and its derivative sigmoid(x) - y.
template <class V>
SLUICE_INLINE inline void bce_voxels(const V& x, const V& y, V& loss, V& slope) {
  const V zero{};
  const V from_x = exp_v<V>(x > zero ? -x : x), high = 1.f / (from_x + 1.f);
  loss = (x > zero ? x : zero) - x * y + log1p_v<V>(from_x);
  slope = (x > zero ? high : from_x * high) - y;
}

constexpr std::int64_t block = 1 << 11;  // values that are added up in float32

// f(first, n) of each block of `all` values, on all threads.
template <class F>
void each_block(std::int64_t all, const F& f) {
  team_for((all + block - 1) / block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * block; first < std::min(end * block, all); first += block)
      f(first, std::min(block, all - first));
  });
}

struct Slope {
  at::Tensor slope;
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    return {grads[0] * slope};
  }
  std::vector<at::Tensor> last_backward(const std::vector<at::Tensor>& grads) {
    return {slope.mul_(grads[0])};
  }
};

// The sum of f(x, y, loss, slope) over all values, with the slopes on LibTorch's tape.
template <class F>
at::Tensor sum_fused(const char* name, const at::Tensor& pred, const at::Tensor& truth,
                     const F& f) {
  // In the prediction's own order in memory, which the gradient has too.
  const bool dense = pred.is_non_overlapping_and_dense();
  const at::Tensor x = dense ? pred.detach() : pred.detach().contiguous();
  const at::Tensor y =
      truth.strides() == x.strides() ? truth.detach() : at::empty_like(x).copy_(truth.detach());
  const at::Tensor slope = at::empty_like(x);
  std::vector<double> sums(static_cast<std::size_t>((x.numel() + block - 1) / block));
  each_block(x.numel(), [&](std::int64_t first, std::int64_t count) {
    const float *from = x.const_data_ptr<float>() + first, *to = y.const_data_ptr<float>() + first;
    float* tilt = slope.mutable_data_ptr<float>() + first;
    double& sum = sums[static_cast<std::size_t>(first / block)];
    simd([=, &sum]() SLUICE_INLINE {
      float lanes[16] = {};  // the last few values go to the first
      float* const all = lanes;
      each(count, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
        V value, derivative;
        f(load<V>(from + i), load<V>(to + i), value, derivative);
        store(tilt + i, derivative);
        store(all, load<V>(all) + value);
      });
      for (const float lane : lanes) sum += lane;
    });
  });
  const auto sum = static_cast<float>(std::accumulate(sums.begin(), sums.end(), 0.0));
  at::Tensor loss = at::scalar_tensor(sum, x.options());  // infinite where it is too large
  attach(name, {loss}, {pred}, Slope{slope});
  return loss;
}

}  // namespace

at::Tensor focal_fused(const at::Tensor& logits, const at::Tensor& truth, double gamma,
                       std::optional<double> alpha) {
  const at::Tensor x = logits.detach().contiguous(), y = truth.detach().contiguous();
  const at::Tensor loss = at::empty_like(x), slope = at::empty_like(x);
  const auto front = static_cast<float>(alpha.value_or(1)),
             back = static_cast<float>(alpha ? 1 - *alpha : 1), power = static_cast<float>(gamma);
  each_block(x.numel(), [&](std::int64_t first, std::int64_t count) {
    const float *from = x.const_data_ptr<float>() + first, *to = y.const_data_ptr<float>() + first;
    float *out = loss.mutable_data_ptr<float>() + first,
          *tilt = slope.mutable_data_ptr<float>() + first;
    simd([=]() SLUICE_INLINE {
      each(count, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
        V value, derivative;
        focal_voxels<V>(load<V>(from + i), load<V>(to + i), power, front, back, value, derivative);
        store(out + i, value);
        store(tilt + i, derivative);
      });
    });
  });
  attach("FocalBackward", {loss}, {logits}, Slope{slope});
  return loss;
}

at::Tensor bce_fused(const at::Tensor& logits, const at::Tensor& truth) {
  return sum_fused("BceBackward", logits, truth,
                   []<class V>(const V& x, const V& y, V& loss, V& slope)
                       SLUICE_INLINE { bce_voxels<V>(x, y, loss, slope); });
}

at::Tensor pair_fused(PairTerm term, const at::Tensor& pred, const at::Tensor& truth, double bend) {
  const auto limit = static_cast<float>(term == PairTerm::l1 || term == PairTerm::mse ? 0 : bend);
  const auto sum = [&](const auto& f) { return sum_fused("PairBackward", pred, truth, f); };
  switch (term) {
    case PairTerm::l1:
      return sum([]<class V>(const V& x, const V& y, V& loss, V& slope) SLUICE_INLINE {
        const V d = x - y, zero{}, one = zero + 1.f;
        loss = d > zero ? d : -d;
        slope = d > zero ? one : d < zero ? -one : d;
      });
    case PairTerm::mse:
      return sum([]<class V>(const V& x, const V& y, V& loss, V& slope) SLUICE_INLINE {
        const V d = x - y;
        loss = d * d;
        slope = 2.f * d;
      });
    case PairTerm::huber:
    case PairTerm::smooth_l1: {
      const float scale = term == PairTerm::huber ? 1.f : 1.f / limit;
      return sum([=]<class V>(const V& x, const V& y, V& loss, V& slope) SLUICE_INLINE {
        const V d = x - y, zero{}, size = d > zero ? d : -d, most = zero + limit;
        const V line = d > zero ? most : -most;
        loss = (size > most ? limit * (size - 0.5f * limit) : 0.5f * d * d) * scale;
        slope = (size > most ? line : d) * scale;  // NaN of a d that is NaN
      });
    }
    case PairTerm::bce:
      return sum([]<class V>(const V& x, const V& y, V& loss, V& slope) SLUICE_INLINE {
        const V zero{}, one = zero + 1.f, least = V{} - 100.f, rest = one - x, all = x * rest;
        const V a = log_v<V>(x), b = log1p_v<V>(-x), few = zero + 1e-12f;
        loss = -(y * (x > zero && a > least ? a : least) +
                 (one - y) * (rest > zero && b > least ? b : least));
        loss = x >= zero && x <= one ? loss : V{} + std::numeric_limits<float>::quiet_NaN();
        slope = (x - y) / (all > few ? all : few);
      });
  }
  return {};
}

}  // namespace sluice
