// Prediction and truth of a loss over classes, prepared once for all of its terms: activation,
// one-hot label, background and class weights.
//
// Invariant: each part is made when a term first asks for it, so a fused kernel that needs none
// makes none; terms of one Target share them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/loss/loss_params.h"

namespace sluice {

struct TargetOptions : TargetParams {
  std::optional<std::vector<double>> weight;  // by class; one value: for all
  std::optional<std::string> other_act;       // instead of sigmoid and softmax
  bool soft_label = false;                    // the label holds shares of classes
  std::optional<std::int64_t> ignore_index;   // voxels of this label do not count
  double label_smoothing = 0;                 // of the cross entropy
};

class Target {
 public:
  // pred [N, C, ...] logits; label [N, 1, ...] class indices or [N, C, ...]; with ignore_index C
  // also [N, C + 1, ...], whose last channel is set where nothing counts. mask [N or 1, 1, ...]:
  // factor of what prob() gives; undefined: 1.
  Target(at::Tensor prediction, at::Tensor truth, const TargetOptions& given, at::Tensor by = {})
      : pred(std::move(prediction)), label(std::move(truth)), mask(std::move(by)), options(given) {}

  const at::Tensor pred, label, mask;
  const TargetOptions& options;

  std::int64_t classes() const { return pred.size(1); }
  // Without the background where that is left out.
  std::int64_t counted() const { return classes() - first(); }
  std::int64_t first() const { return !options.include_background && classes() > 1 ? 1 : 0; }
  bool mean() const { return options.reduction == Reduce::mean; }

  const at::Tensor& logits() const;           // float32 (or float64), of all classes
  const at::Tensor& prob() const;             // after the activation, [N, counted, ...]
  const at::Tensor& truth() const;            // 0 to 1, [N, counted, ...]
  at::Tensor counted_logits() const;          // [N, counted, ...]
  at::Tensor counts() const;                  // [N, 1, ...]: 0 where the label is ignore_index
  at::Tensor known_label() const;             // class 0 where it is ignored
  at::Tensor channels() const;                // the label without the channel of what is ignored
  at::Tensor overlap() const;                 // sum of prob and truth at once, as sum()
  at::Tensor sum(const at::Tensor& x) const;  // over space, and over samples where `batch`: [.., C]
  // The sum of prob() or truth(); of soft labels that of magnitudes, which overlap() is made of
  // (MONAI's compute_tp_fp_fn), and which an activation below 0 tells from it.
  at::Tensor mass(const at::Tensor& x) const;
  // Mean or sum over samples and classes of what sum() gave; none: as it is, [.., C, 1, ...] of as
  // many axes as `pred` has.
  at::Tensor reduce(const at::Tensor& by_class) const;

  // By class, of all or of those that count; empty: none are given.
  std::vector<double> weights() const;
  std::vector<double> counted_weights() const;

 private:
  mutable at::Tensor logits_, prob_, truth_;
};

// One value a class, like `like`'s.
at::Tensor weight_tensor(const std::vector<double>& weights, const at::Tensor& like);

// Class indices as MONAI reads them: without what is after the point.
at::Tensor truncated(const at::Tensor& label);

// The first value of a label [N, 1, ...] that is no class index below `classes`.
struct BadLabel {
  std::int64_t sample;
  double value;
};
std::optional<BadLabel> find_bad_label(const at::Tensor& label, std::int64_t classes);

}  // namespace sluice
