// The optimizers' updates (optim.h) of one weight, and what a step decides for all of them: for
// host and device.
//
// Everything that a step needs and does not know beforehand (whether a gradient is infinite, the
// norm, the loss scale, how many steps were taken) is OptimState, in device memory, and is worked
// out there: no step waits for the host, and a captured graph replays it.
//
// Invariant: a step whose gradients hold an infinity or a NaN changes no weight and no moment and
// does not count; it lowers the loss scale.
#pragma once

#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

enum class OptimKind : std::uint8_t { sgd, adam, novograd };

struct OptimRule {
  OptimKind kind = OptimKind::sgd;
  double lr = 0, momentum = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool nesterov = false, decoupled = false, grad_averaging = false, amsgrad = false;
  double max_norm = 0;  // of all gradients together, after unscaling; 0: no clipping
  bool scaled = false;  // gradients are of scale * loss; else of the loss
  double growth = 2, backoff = 0.5;
  std::int32_t growth_interval = 2000;  // good steps in a row until the scale grows
};

struct OptimState {
  // Kept from step to step, and what a checkpoint holds.
  double lr_factor = 1;                // a schedule's: multiplies the rule's lr
  float scale = 65536;                 // of the loss
  std::int32_t good = 0;               // steps since the scale changed
  std::int64_t step = 0, skipped = 0;  // steps that were taken, and that were not
  // Of the step under way.
  double norm = 0;                       // of all gradients, unscaled
  float gradient = 1;                    // what gradients are multiplied by: unscaling and clipping
  std::int32_t skip = 0;                 // a gradient is not finite
  float rate = 0, root = 1, shrink = 1;  // by kind, see decide()
};

// A tensor of weights. Pointers that an optimizer has no use for are null.
struct OptimTensor {
  float* weight = nullptr;
  const void* grad = nullptr;
  float *first = nullptr, *second = nullptr, *largest = nullptr;  // Novograd's last two: one number
  void* copy = nullptr;  // the weights once more, in copy_type
  VoxelType grad_type = VoxelType::f32, copy_type = VoxelType::bf16;
  std::int64_t size = 0;

  friend bool operator==(const OptimTensor& a, const OptimTensor& b) {
    return a.weight == b.weight && a.grad == b.grad && a.first == b.first && a.second == b.second &&
           a.largest == b.largest && a.copy == b.copy && a.grad_type == b.grad_type &&
           a.copy_type == b.copy_type && a.size == b.size;
  }
};

// What follows from the sum of the squares of all (scaled) gradients. Returns nothing: state is
// changed.
SLUICE_HD inline void decide(const OptimRule& r, double squares, OptimState& s) {
  const double unscale = r.scaled ? 1.0 / static_cast<double>(s.scale) : 1.0;
  s.norm = sqrt(squares) * unscale;
  s.skip = s.norm <= 1.7976931348623157e308 ? 0 : 1;  // infinite or NaN
  double factor = unscale;
  if (r.max_norm > 0 && s.norm > r.max_norm) factor *= r.max_norm / (s.norm + 1e-6);
  s.gradient = static_cast<float>(factor);
  if (s.skip) {
    s.good = 0;
    ++s.skipped;
    if (r.scaled) s.scale = static_cast<float>(s.scale * r.backoff);
    return;
  }
  ++s.step;
  if (r.scaled && ++s.good == r.growth_interval) {
    s.good = 0;
    const float grown = static_cast<float>(s.scale * r.growth);
    if (grown <= 3.0e38f) s.scale = grown;
  }
  const double lr = r.lr * s.lr_factor;
  s.rate = static_cast<float>(lr);
  s.root = s.shrink = 1;
  if (r.kind == OptimKind::adam) {
    const double n = static_cast<double>(s.step);
    s.rate = static_cast<float>(lr / (1 - pow(r.beta1, n)));
    s.root = static_cast<float>(1 / sqrt(1 - pow(r.beta2, n)));
    s.shrink = static_cast<float>(r.decoupled ? 1 - lr * r.weight_decay : 1.0);
  }
}

// Novograd: the tensor's second moment from its gradient's squares (as they are, scaled), and what
// the unscaled, clipped gradient is multiplied by.
SLUICE_HD inline float novograd_scale(const OptimRule& r, const OptimState& s, double squares,
                                      float* second, float* largest) {
  const double g = squares * s.gradient * s.gradient;
  double v = *second == 0 ? g : r.beta2 * *second + (1 - r.beta2) * g;
  *second = static_cast<float>(v);
  if (largest) {
    v = v > *largest ? v : *largest;
    *largest = static_cast<float>(v);
  }
  return static_cast<float>(1 / (sqrt(v) + r.eps));
}

// One weight's update, with what is the same for all weights of a tensor worked out beforehand.
struct OptimValue {
  OptimKind kind;
  bool nesterov;
  float gradient, rate, root, shrink, decay, b1, b2, rest1, rest2, eps, norm_scale;

  SLUICE_HD static OptimValue of(const OptimRule& r, const OptimState& s, float norm_scale) {
    OptimValue v;
    v.kind = r.kind;
    v.nesterov = r.nesterov;
    v.gradient = s.gradient;
    v.rate = s.rate;
    v.root = s.root;
    v.shrink = s.shrink;
    v.decay = static_cast<float>(r.decoupled ? 0 : r.weight_decay);
    v.b1 = static_cast<float>(r.kind == OptimKind::sgd ? r.momentum : r.beta1);
    v.b2 = static_cast<float>(r.beta2);
    v.rest1 = static_cast<float>(r.kind == OptimKind::adam ||
                                         (r.kind == OptimKind::novograd && r.grad_averaging)
                                     ? 1 - r.beta1
                                     : 1.0);
    v.rest2 = static_cast<float>(1 - r.beta2);
    v.eps = static_cast<float>(r.eps);
    v.norm_scale = norm_scale;
    return v;
  }
  // Null moments: SGD without momentum; `top` only with amsgrad.
  SLUICE_HD float updated(float w, float grad, float* m, float* v, float* top) const {
    float g = grad * gradient;
    if (kind == OptimKind::sgd) {
      g = mad(decay, w, g);
      if (m) {
        *m = mad(b1, *m, g);
        g = nesterov ? mad(b1, *m, g) : *m;
      }
      return mad(-rate, g, w);
    }
    if (kind == OptimKind::novograd) {
      *m = mad(b1, *m, rest1 * mad(decay, w, g * norm_scale));
      return mad(-rate, *m, w);
    }
    const float x = w * shrink;
    g = mad(decay, x, g);
    *m = mad(b1, *m, rest1 * g);
    float second = *v = mad(b2, *v, rest2 * g * g);
    if (top) second = *top = *top > second ? *top : second;
    return mad(-rate, *m / mad(sqrtf(second), root, eps), x);
  }
};

}  // namespace sluice::kernels
