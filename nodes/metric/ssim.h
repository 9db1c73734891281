// Metrics of structural similarity: one number a case, in float32 as MONAI's.
#pragma once

#include "engine/graph/param_group.h"
#include "kernels/loss/similarity.h"
#include "nodes/metric/regression.h"

namespace sluice {

template <class P>
Spec& add_ssim_params(Spec& s, SsimParams P::*group, const std::string& window) {
  SsimParams::each([&](const std::string& name, auto member, const char* text) {
    param_of(s, name == "win_size" ? window : name, group, member, text);
  });
  return s;
}

}  // namespace sluice
