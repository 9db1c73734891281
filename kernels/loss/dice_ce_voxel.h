// Soft Dice and cross entropy (terms.h) of one voxel, and the loss from the sums over all voxels:
// for host and device. Logits of any type and layout; labels are class numbers, uint8.
//
// Invariant: a label that is no class counts for nothing and reads nothing; whatever the logits
// are, the cross entropy of what has no weight, and Dice without a factor, add 0.
#pragma once

#include "kernels/base/voxel_type.h"
#include "kernels/loss/loss_params.h"

namespace sluice::kernels {

inline constexpr int dice_classes = 32;

// Both terms' parameters as the graph gives them, and what they come to for the classes.
struct DiceCeRule : TargetParams, DiceTerm {
  double lambda_dice = 1, lambda_ce = 1;
  int classes = 2;
  float ce_weight[dice_classes];     // by class
  double dice_weight[dice_classes];  // by class, also of the background
  DiceCeRule() {
    for (int c = 0; c < dice_classes; ++c) ce_weight[c] = dice_weight[c] = 1;
  }
};

// Logits and label of a batch; strides in elements.
struct DiceCeBatch {
  const void* logits = nullptr;
  const std::uint8_t* label = nullptr;  // [samples, voxels]
  VoxelType type = VoxelType::f32;
  std::int64_t samples = 0, voxels = 0;
  std::int64_t sample_stride = 0, class_stride = 0, voxel_stride = 1;
};

// Sums over a sample: P, I and T by class, then the cross entropy.
SLUICE_HD inline int dice_width(int classes) { return 3 * classes + 1; }

// M is the room for classes, known to the compiler so that all of it stays in registers.
template <int M>
struct DiceCeVoxel {
  static constexpr int size = M;
  float p[M];     // probabilities
  float entropy;  // -log of the label's
  int label;

  template <class T>
  SLUICE_HD void load(const T* z, std::int64_t stride, int classes, int label_) {
    label = label_;
    float top = to_float(z[0]), chosen = 0, sum = 0;
    for (int c = 0; c < M; ++c) {
      p[c] = c < classes ? to_float(z[c * stride]) : 0.0f;
      if (c < classes && p[c] > top) top = p[c];
      if (c == label) chosen = p[c];
    }
    for (int c = 0; c < M; ++c) {
      p[c] = c < classes ? exp_bounded(p[c] - top) : 0.0f;
      sum += p[c];
    }
    const float scale = 1.0f / sum;
    for (int c = 0; c < M; ++c) p[c] *= scale;
    entropy = label < classes ? mad(log2_positive(sum), 0.6931471805599453f, top - chosen) : 0.0f;
  }
  SLUICE_HD void add_to(float* sums, const DiceCeRule& r) const {  // [3 M + 1]
    for (int c = 0; c < M; ++c) {
      sums[c] += r.squared_pred ? p[c] * p[c] : p[c];
      sums[M + c] += c == label ? p[c] : 0.0f;
      sums[2 * M + c] += c == label ? 1.0f : 0.0f;
    }
    const float w = label < r.classes ? r.ce_weight[label] : 0.0f;
    if (w != 0) sums[3 * M] = mad(w, entropy, sums[3 * M]);
  }
  // dloss/dlogits in place of the probabilities; by_i and by_p are dloss/dI and dloss/dP.
  SLUICE_HD void to_gradient(const DiceCeRule& r, const float* by_i, const float* by_p, float ce) {
    const float w = label < r.classes ? ce * r.ce_weight[label] : 0.0f;
    float mixed = 0;
    for (int c = 0; c < M; ++c)
      if (c < r.classes) mixed = mad(p[c], slope(r, by_i, by_p, c), mixed);
    for (int c = 0; c < M; ++c)
      if (c < r.classes)
        p[c] = mad(p[c], slope(r, by_i, by_p, c) - mixed, w * (p[c] - (c == label ? 1.0f : 0.0f)));
  }

 private:
  SLUICE_HD float slope(const DiceCeRule& r, const float* by_i, const float* by_p, int c) const {
    return by_p[c] * (r.squared_pred ? 2.0f * p[c] : 1.0f) + (c == label ? by_i[c] : 0.0f);
  }
};

// What the backward pass needs of the forward pass, [samples] of it and one loss.
struct DiceCeSlopes {
  float by_i[dice_classes], by_p[dice_classes];
};

struct DiceCeTotal {
  double loss = 0;
  double ce = 0;  // what cross entropy is multiplied by
};

// The loss, and its slopes by the sums of each group: all samples together (r.batch) or one. Sums
// are [groups][3 C + 1]; `slopes` [groups].
SLUICE_HD inline DiceCeTotal dice_ce_finish(const DiceCeRule& r, const double* sums, int groups,
                                            DiceCeSlopes* slopes) {
  const int width = dice_width(r.classes), first = r.include_background ? 0 : 1;
  const bool mean = r.reduction == Reduce::mean;
  const double each = mean ? 1.0 / (static_cast<double>(groups) * (r.classes - first)) : 1.0;
  double dice = 0, entropy = 0, weight = 0;
  for (int g = 0; g < groups; ++g) {
    const double* t = sums + g * width;
    for (int c = 0; c < r.classes; ++c) {
      const double P = t[c], I = t[r.classes + c], T = t[2 * r.classes + c];
      weight += r.ce_weight[c] * T;
      slopes[g].by_i[c] = slopes[g].by_p[c] = 0;
      if (c < first || r.lambda_dice == 0) continue;
      const double top = 2 * I + r.smooth_nr;
      const double area = (r.jaccard ? 2 * (P + T - I) : P + T) + r.smooth_dr;
      const double w = each * r.dice_weight[c], by_area = top / (area * area);
      dice += w * (1 - top / area);
      slopes[g].by_i[c] =
          static_cast<float>(r.lambda_dice * w * (-2 / area - (r.jaccard ? 2 * by_area : 0)));
      slopes[g].by_p[c] = static_cast<float>(r.lambda_dice * w * (r.jaccard ? 2 : 1) * by_area);
    }
    entropy += t[3 * r.classes];
  }
  DiceCeTotal total;
  total.ce = r.lambda_ce / (mean ? weight : 1.0);
  total.loss = r.lambda_dice * dice + (r.lambda_ce != 0 ? total.ce * entropy : 0);
  return total;
}

// The room that a number of classes takes.
template <class F>
inline void with_classes(int classes, F&& f) {
  if (classes <= 2) return f(DiceCeVoxel<2>{});
  if (classes <= 3) return f(DiceCeVoxel<3>{});
  if (classes <= 4) return f(DiceCeVoxel<4>{});
  if (classes <= 8) return f(DiceCeVoxel<8>{});
  if (classes <= 16) return f(DiceCeVoxel<16>{});
  f(DiceCeVoxel<32>{});
}

}  // namespace sluice::kernels
