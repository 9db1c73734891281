// Terms that several losses share: (Target, parameters) -> a differentiable scalar. A loss is a sum
// of terms; a term of one loss alone stands in its node's file.
#pragma once

#include <ATen/core/Reduction.h>

#include <string>

#include "kernels/loss/fused.h"
#include "kernels/loss/target.h"

namespace sluice {

// Soft Dice (Milletari, Navab, Ahmadi 2016), the mean over samples and classes (or sum) of
//
//   w_c (1 - (2 I + nr) / (P + T + dr)),  I = sum p t, P = sum p (or p^2), T = sum t
//
// times `factor`, which a fused kernel takes into its float64 arithmetic.
at::Tensor dice(const Target& t, const DiceTerm& p, double factor = 1);

// Softmax cross entropy with class weights; of one channel, the binary one, whose weight is of the
// voxels where the truth is 1. The mean is over what counts, and 0 where nothing does.
at::Tensor cross_entropy(const Target& t);

// ... of class indices [N, ...] alone, in two passes over the logits: nothing of their size is kept
// between them. `weights`: of each class; what is no class does not count. Undefined where it does
// not go: more than 32 classes, rows [N, C], on the host other than float32.
at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& label,
                               const std::vector<double>& weights, bool mean);

// factor_dice dice + factor_ce cross_entropy. Softmax of class indices takes two passes over the
// logits (sums; gradient) on the host, and on a CUDA device where libsluice_cuda.so is: this is the
// one place that recognises the pair. All else are the same formulas in LibTorch's operations.
at::Tensor dice_ce(const Target& t, const DiceTerm& p, double factor_dice, double factor_ce);

// LibTorch's binary cross entropy of the logits' sigmoids; float32 on the host without weights in
// one pass. `reduction`: at::Reduction.
at::Tensor bce_with_logits(const at::Tensor& logits, const at::Tensor& truth,
                           const std::optional<at::Tensor>& weight = {},
                           const std::optional<at::Tensor>& pos_weight = {},
                           std::int64_t reduction = at::Reduction::Mean);

// LibTorch's loss of that name; float32 on the host in one pass. `bend`: of huber and smooth_l1.
at::Tensor pair_loss(PairTerm term, const at::Tensor& pred, const at::Tensor& truth,
                     std::int64_t reduction, double bend = 1);

struct FocalTerm {
  double gamma = 2;
  std::optional<double> alpha;  // weight of the foreground, 1 - alpha of the background
};

// Focal loss (Lin et al. 2017): (1 - p_t)^gamma times binary cross entropy with logits, a channel a
// class by itself; the mean over everything, or the sum of each map's mean.
at::Tensor focal(const Target& t, const FocalTerm& p);
// ... the map itself, of logits and a truth of their shape.
at::Tensor sigmoid_focal(const at::Tensor& logits, const at::Tensor& truth, const FocalTerm& p);

// The mean of a map [N, counted, ...] over everything that is not ignored (the classes are summed
// up then, as MONAI's), or the sum of each channel's mean; weighted by class.
at::Tensor focal_mean(const Target& t, at::Tensor loss);

// [1, C, 1, ...], to multiply with `like`.
at::Tensor channel_weights(const std::vector<double>& weights, const at::Tensor& like);

struct GeneralizedDiceTerm {
  std::string w_type = "square";
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
};

// Generalised Dice (Sudre et al. 2017): 1 - (2 sum_c w_c I_c + nr) / (sum_c w_c (P_c + T_c) + dr)
// with w = 1 / T^2 ("square"), 1 / T ("simple") or 1 ("uniform"); a class that the label lacks
// weighs as much as the heaviest one that it has.
at::Tensor generalized_dice(const Target& t, const GeneralizedDiceTerm& p);

}  // namespace sluice
