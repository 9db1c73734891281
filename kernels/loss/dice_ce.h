// Soft Dice (Milletari, Navab, Ahmadi 2016) plus cross entropy with MONAI's terms and defaults
// (monai.losses.DiceLoss, DiceCELoss 1.6.1):
//
//   dice_c = 1 - (2 I + nr) / (P + T + dr),  I = sum p t, P = sum p (or p^2), T = sum t
//   loss = lambda_dice * mean_c(w_c dice_c) + lambda_ce * CE(logits, t)
//
// Invariant: sums are formed over blocks of a fixed size and added in order, in float64; the
// result does not depend on the number of threads. Softmax over class indices takes two fused
// passes (sums; gradient), on a CUDA device where libsluice_cuda.so is; every other case the same
// formulas in LibTorch's operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

struct DiceCe {
  bool include_background = true, to_onehot_y = false, sigmoid = false, softmax = false;
  bool squared_pred = false, jaccard = false, batch = false;
  bool mean = true;  // else the sum
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
  double lambda_dice = 1, lambda_ce = 1;
  std::vector<double> dice_weight;  // by class that Dice counts; one for all; empty: none
  std::vector<double> ce_weight;    // by class; empty: none
};

// pred [N, C, ...] logits; label [N, 1, ...] class indices or [N, C, ...]. A differentiable scalar.
at::Tensor dice_ce(const at::Tensor& pred, const at::Tensor& label, const DiceCe& p);

// Class indices as MONAI reads them: without what is behind the point.
inline at::Tensor truncated(const at::Tensor& label) {
  return label.is_floating_point() ? label.trunc() : label;
}

// The first value of a label [N, 1, ...] that is no class index below `classes`.
struct BadLabel {
  std::int64_t sample;
  double value;
};
std::optional<BadLabel> find_bad_label(const at::Tensor& label, std::int64_t classes);

}  // namespace sluice
