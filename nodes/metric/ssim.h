// Metrics of structural similarity: one number a case, in float64.
#pragma once

#include <ATen/ops/mean.h>

#include "engine/graph/param_group.h"
#include "kernels/loss/similarity.h"
#include "nodes/metric/regression.h"

namespace sluice {

// A case as a batch of one, on the host.
inline at::Tensor as_batch(const at::Tensor& t) { return t.to(at::kCPU, at::kDouble).unsqueeze(0); }
inline double mean_of(const at::Tensor& t) { return t.mean().item<double>(); }

template <class P>
Spec& add_ssim_params(Spec& s, SsimParams P::*group, const std::string& window) {
  SsimParams::each([&](const std::string& name, auto member, const char* text) {
    param_of(s, name == "win_size" ? window : name, group, member, text);
  });
  return s;
}

}  // namespace sluice
