// Norm, activation and residual (norm_act.h) of one value: for host and device.
//
//   u = x * scale + shift,   y = (u > 0 ? u : slope * u) + residual
//
// Invariant: scale and shift are those of the value's group and channel; nothing else of the tensor
// is needed for a value, and of the sums nothing but what add() adds.
#pragma once

#include <cfloat>
#include <cmath>

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

struct NormActValue {
  float scale = 1, shift = 0, slope = 1;

  // From statistics and parameters; gamma 1 and beta 0 where there are none.
  SLUICE_HD static NormActValue of(float mean, float rstd, float gamma, float beta, float slope) {
    const float scale = rstd * gamma;
    return {scale, mad(-mean, scale, beta), slope};
  }
  SLUICE_HD float u(float x) const { return mad(x, scale, shift); }
  // What u is at least for the slope: ReLU of minus infinity is 0, and not 0 times infinity.
  SLUICE_HD static float least(float slope) { return slope == 0 ? -FLT_MAX : -INFINITY; }
  SLUICE_HD float forward(float x, float residual) const {
    const float v = u(x), low = least(slope);
    return (v > 0 ? v : slope * (v < low ? low : v)) + residual;
  }
  // dL/du
  SLUICE_HD float through(float x, float grad) const { return u(x) > 0 ? grad : slope * grad; }
  // dL/dx; `by_x` and `by_1` are what mean and variance answer (NormActAnswer).
  SLUICE_HD float backward(float x, float grad, float by_x, float by_1) const {
    return mad(through(x, grad), scale, mad(x, by_x, by_1));
  }
};

// A group's and channel's sums in the backward pass.
struct NormActSums {
  float d = 0, dx = 0, slope = 0;  // of dL/du, of dL/du (x - mean), of grad * u where u <= 0
  SLUICE_HD void add(const NormActValue& v, float x, float grad, float mean) {
    const float u = v.u(x), g = u > 0 ? grad : v.slope * grad;
    d += g;
    dx = mad(g, x - mean, dx);
    slope = u > 0 ? slope : mad(grad, u, slope);
  }
};

// dL/dx = through * scale + x * by_x + by_1. Zero where mean and rstd are constants.
struct NormActAnswer {
  double by_x = 0, by_1 = 0;
  // A channel's part in it, from its sums over `rows` values.
  SLUICE_HD static NormActAnswer part(double d, double dx, double rows, float scale, float rstd) {
    return {-scale * rstd * rstd * dx / rows, -scale * d / rows};
  }
  // Of `together` channels that have their statistics in common.
  SLUICE_HD static NormActAnswer of(const NormActAnswer* parts, int together, float mean) {
    NormActAnswer a;
    for (int k = 0; k < together; ++k) {
      a.by_x += parts[k].by_x / together;
      a.by_1 += parts[k].by_1 / together;
    }
    a.by_1 -= a.by_x * mean;
    return a;
  }
};

}  // namespace sluice::kernels
