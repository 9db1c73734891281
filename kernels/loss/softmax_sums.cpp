#include "kernels/loss/softmax_sums.h"

#include <ATen/ATen.h>

#include "kernels/base/simd.h"
#include "kernels/base/simd_math.h"
#include "kernels/base/team.h"

namespace sluice {
namespace {

constexpr std::int64_t block = softmax_block;

// Interleaved classes to buffers and back; the number of classes known to the compiler, so that it
// can shuffle vectors.
template <int C>
void deinterleave(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i)
    for (int c = 0; c < C; ++c) to[c * block + i] = from[i * C + c];
}
template <int C>
void interleave(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i)
    for (int c = 0; c < C; ++c) to[i * C + c] = from[c * block + i];
}

void gather(const float* from, std::int64_t class_stride, std::int64_t voxel_stride,
            std::int64_t classes, std::int64_t n, float* to) {
  if (voxel_stride == 2) return deinterleave<2>(from, n, to);
  if (voxel_stride == 3) return deinterleave<3>(from, n, to);
  if (voxel_stride == 4) return deinterleave<4>(from, n, to);
  for (std::int64_t c = 0; c < classes; ++c)
    for (std::int64_t i = 0; i < n; ++i)
      to[c * block + i] = from[c * class_stride + i * voxel_stride];
}
void scatter(const float* from, std::int64_t class_stride, std::int64_t voxel_stride,
             std::int64_t classes, std::int64_t n, float* to) {
  if (voxel_stride == 2) return interleave<2>(from, n, to);
  if (voxel_stride == 3) return interleave<3>(from, n, to);
  if (voxel_stride == 4) return interleave<4>(from, n, to);
  for (std::int64_t c = 0; c < classes; ++c)
    for (std::int64_t i = 0; i < n; ++i)
      to[c * class_stride + i * voxel_stride] = from[c * block + i];
}

// `lanes` holds 16 partial sums each of P, I and T by class, and of the cross entropy.
template <class V>
SLUICE_INLINE inline void add_lanes(float* lanes, std::int64_t k, const V& v) {
  store(lanes + 16 * k, load<V>(lanes + 16 * k) + v);
}

// Logits -> probabilities in place. Returns -log of the probability of the logit `chosen`, without
// the rounding of large logits.
template <class V>
SLUICE_INLINE inline V softmax(float* z, std::int64_t classes, const V& chosen = V{}) {
  V top = load<V>(z);
  for (std::int64_t c = 1; c < classes; ++c) {
    const V v = load<V>(z + c * block);
    top = v > top ? v : top;
  }
  V sum{};
  for (std::int64_t c = 0; c < classes; ++c) {
    const V e = exp_v<V>(load<V>(z + c * block) - top);
    store(z + c * block, e);
    sum += e;
  }
  const V scale = 1.f / sum;
  for (std::int64_t c = 0; c < classes; ++c) store(z + c * block, load<V>(z + c * block) * scale);
  return top - chosen + log_v<V>(sum);
}

// `label` holds class numbers as floats, `weight` the cross entropy's weight of each voxel.
void sum_block(float* z, const float* label, const float* weight, std::int64_t classes,
               std::int64_t n, bool squared, float* lanes) {
  simd([=]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      const V t = load<V>(label + i);
      V chosen{};
      for (std::int64_t c = 0; c < classes; ++c)
        chosen += t == static_cast<float>(c) ? load<V>(z + c * block + i) : V{};
      const V entropy = softmax<V>(z + i, classes, chosen);
      const V w = load<V>(weight + i);
      add_lanes<V>(lanes, 3 * classes, w == 0.f ? V{} : w * entropy);
      for (std::int64_t c = 0; c < classes; ++c) {
        const V p = load<V>(z + c * block + i);
        const V one = V{} + 1.f;
        add_lanes<V>(lanes, c, squared ? p * p : p);
        add_lanes<V>(lanes, classes + c, t == static_cast<float>(c) ? p : V{});
        add_lanes<V>(lanes, 2 * classes + c, t == static_cast<float>(c) ? one : V{});
      }
    });
  });
}

// Logits -> dloss/dlogits: z_c = p_c (q_c - sum_k p_k q_k) + weight (p_c - t_c), q = dloss/dp.
void gradient_block(float* z, const float* label, const float* weight, std::int64_t classes,
                    std::int64_t n, bool squared, const float* by_i, const float* by_p) {
  simd([=]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      const V t = load<V>(label + i), w = load<V>(weight + i);
      softmax<V>(z + i, classes);
      V mixed{};
      for (std::int64_t c = 0; c < classes; ++c) {
        const V p = load<V>(z + c * block + i), one = V{} + 1.f;
        const V q = by_p[c] * (squared ? 2.f * p : one);
        mixed += p * (q + (t == static_cast<float>(c) ? V{} + by_i[c] : V{}));
      }
      for (std::int64_t c = 0; c < classes; ++c) {
        const V p = load<V>(z + c * block + i), one = V{} + 1.f;
        V q = by_p[c] * (squared ? 2.f * p : one) - mixed;
        q += t == static_cast<float>(c) ? V{} + by_i[c] : V{};
        store(z + c * block + i, p * q + w * (p - (t == static_cast<float>(c) ? one : V{})));
      }
    });
  });
}

}  // namespace

SoftmaxSums::SoftmaxSums(const at::Tensor& logits, const at::Tensor& label,
                         const kernels::DiceCeRule& r)
    : r_(r), n_(logits.size(0)), classes_(logits.size(1)) {
  const auto last =
      logits.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  const bool channels_last = logits.dim() >= 4 && logits.dim() <= 5 && logits.is_contiguous(last);
  logits_ = channels_last ? logits : logits.contiguous();
  voxels_ = logits_.numel() / n_ / classes_;
  class_stride_ = channels_last ? 1 : voxels_;
  voxel_stride_ = channels_last ? classes_ : 1;
  label_ = label.to(at::kByte).contiguous();
  weight_.assign(256, 0.f);  // a label that is no class counts for nothing
  std::copy_n(r_.ce_weight, classes_, weight_.begin());
}

// Calls body(block number, sample, first voxel, voxels, buffers) for every block, in parallel.
template <class F>
void SoftmaxSums::each_block(const F& body) const {
  const std::int64_t per_sample = (voxels_ + block - 1) / block;
  team_for(n_ * per_sample, [&](std::int64_t begin, std::int64_t end) {
    Buffer b;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t n = k / per_sample, first = (k % per_sample) * block;
      const std::int64_t count = std::min(block, voxels_ - first);
      const std::int64_t at = n * classes_ * voxels_ + first * voxel_stride_;
      const std::uint8_t* label = label_.const_data_ptr<std::uint8_t>() + n * voxels_ + first;
      gather(logits_.const_data_ptr<float>() + at, class_stride_, voxel_stride_, classes_, count,
             b.v);
      for (std::int64_t i = 0; i < count; ++i) {
        b.label[i] = label[i];
        b.weight[i] = weight_[label[i]];
      }
      body(k, n, at, count, b);
    }
  });
}

std::vector<double> SoftmaxSums::sums() const {
  const std::int64_t per_sample = (voxels_ + block - 1) / block, width = 3 * classes_ + 1;
  std::vector<float> parts(n_ * per_sample * width);
  each_block([&](std::int64_t k, std::int64_t, std::int64_t, std::int64_t count, Buffer& b) {
    std::vector<float> lanes(16 * width);
    sum_block(b.v, b.label, b.weight, classes_, count, r_.squared_pred, lanes.data());
    for (std::int64_t i = 0; i < 16 * width; ++i) parts[k * width + i / 16] += lanes[i];
  });
  std::vector<double> total(static_cast<std::size_t>(groups() * width));
  for (std::int64_t k = 0; k < n_ * per_sample; ++k)
    for (std::int64_t i = 0; i < width; ++i)
      total[(r_.batch ? 0 : k / per_sample) * width + i] += parts[k * width + i];
  return total;
}

at::Tensor SoftmaxSums::gradient(const std::vector<kernels::DiceCeSlopes>& slopes,
                                 double ce) const {
  const auto by_weight = static_cast<float>(ce);
  at::Tensor out = at::empty_like(logits_);
  each_block([&](std::int64_t, std::int64_t n, std::int64_t at, std::int64_t count, Buffer& b) {
    for (std::int64_t i = 0; i < count; ++i) b.weight[i] *= by_weight;
    const auto& slope = slopes[r_.batch ? 0 : static_cast<std::size_t>(n)];
    gradient_block(b.v, b.label, b.weight, classes_, count, r_.squared_pred, slope.by_i,
                   slope.by_p);
    scatter(b.v, class_stride_, voxel_stride_, classes_, count, out.data_ptr<float>() + at);
  });
  return out;
}

}  // namespace sluice
