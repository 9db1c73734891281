// What losses of overlapping classes count: sums over space, and over samples where `batch`.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/loss/target.h"

namespace sluice {

struct ClassSums {
  at::Tensor overlap, prob, truth;  // of both, P and T; [N or none, counted]
  double voxels;                    // that each is a sum over
  at::Tensor false_positives() const { return prob - overlap; }
  at::Tensor false_negatives() const { return truth - overlap; }
};

// Softmax of class indices takes two passes over the logits on the host (softmax_sums.h), and
// stores no probabilities; all else are LibTorch's operations.
ClassSums class_sums(const Target& t);

// Whether softmax_sums.h can count it: class indices, none left out.
bool counts_plainly(const Target& t);

}  // namespace sluice
