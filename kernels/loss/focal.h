// Focal loss (Lin et al. 2017) with MONAI's terms: (1 - p_t)^gamma times binary cross entropy with
// logits, a channel a class by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace sluice {

struct Focal {
  bool include_background = true;  // else channel 0 of several is left out
  bool to_onehot_y = false;
  bool mean = true;  // over everything; else the sum of each map's mean
  double gamma = 2;
  std::optional<double> alpha;  // weight of the foreground, 1 - alpha of the background
  std::vector<double> weight;   // by class that counts; one for all; empty: none
};

// pred [N, C, ...] logits; label [N, 1, ...] class indices or [N, C, ...]. A differentiable scalar.
at::Tensor focal_loss(const at::Tensor& pred, const at::Tensor& label, const Focal& p);

}  // namespace sluice
