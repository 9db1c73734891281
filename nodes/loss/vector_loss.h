// Losses of two views' features, [N, features] each.
#pragma once

#include "nodes/loss/pair_loss.h"

namespace sluice {

inline void check_vectors(const at::Tensor& pred, std::int64_t samples) {
  if (pred.dim() != 2 || pred.size(0) < samples)
    throw DataError("the output " + c10::str(pred.sizes()) +
                    " is no [N, features] with N at least " + std::to_string(samples));
}

}  // namespace sluice
