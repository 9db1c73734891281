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
#include "kernels/optim/lr_schedule.h"

// What takes vectors on the host is inlined, so its calling convention does not matter.
#ifdef __CUDACC__
#define SLUICE_HD_INLINED SLUICE_HD
#else
#pragma GCC diagnostic ignored "-Wpsabi"
#define SLUICE_HD_INLINED __attribute__((always_inline)) inline
#endif

namespace sluice::kernels {

// optim.h has the formulas.
enum class OptimKind : std::uint8_t {
  sgd,
  adam,
  novograd,
  adamax,
  nadam,
  radam,
  rmsprop,
  adagrad,
  adadelta,
  lion,
  asgd,
  lars,
  lamb,
};

struct OptimRule {
  OptimKind kind = OptimKind::sgd;
  double momentum = 0, dampening = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double lr_decay = 0, momentum_decay = 0;      // adagrad's, nadam's
  double lambd = 1e-4, alpha = 0.75, t0 = 1e6;  // asgd's
  double trust_coefficient = 1e-3;              // lars'
  bool nesterov = false, decoupled = false, grad_averaging = false, amsgrad = false;
  bool centered = false;
  LrSchedule schedule;
  double epoch = 0;      // the time of a schedule by epochs
  double max_norm = 0;   // of all gradients together, after unscaling; 0: no clipping
  double max_value = 0;  // of each gradient, after that; 0: no clipping
  bool scaled = false;   // gradients are of scale * loss; else of the loss
  double growth = 2, backoff = 0.5;
  std::int32_t growth_interval = 2000;  // good steps in a row until the scale grows

  // Which of a weight's three numbers beside it are used.
  SLUICE_HD bool uses_first() const {
    if (by_momentum()) return momentum != 0 || schedule.moves_momentum();
    return kind != OptimKind::adagrad && kind != OptimKind::asgd;
  }
  SLUICE_HD bool uses_second() const {
    return kind != OptimKind::sgd && kind != OptimKind::lion && kind != OptimKind::lars;
  }
  SLUICE_HD bool uses_third() const {
    return (amsgrad && (kind == OptimKind::adam || kind == OptimKind::novograd)) ||
           (centered && kind == OptimKind::rmsprop);
  }
  SLUICE_HD bool by_momentum() const {
    return kind == OptimKind::sgd || kind == OptimKind::rmsprop || kind == OptimKind::lars;
  }
  SLUICE_HD bool has_momentum() const {
    return kind != OptimKind::adagrad && kind != OptimKind::adadelta && kind != OptimKind::asgd;
  }
  // A tensor's norm, and that of its direction, say how far it goes; Novograd's direction is known
  // before where no number of it is bounded.
  SLUICE_HD bool measures() const {
    return kind == OptimKind::lamb || kind == OptimKind::lars ||
           (kind == OptimKind::novograd && max_value > 0);
  }
  // The second and third are of the whole tensor: one number.
  SLUICE_HD bool second_of_tensor() const { return kind == OptimKind::novograd; }
};

struct OptimState {
  // Kept from step to step, and what a checkpoint holds.
  float scale = 65536;                 // of the loss
  std::int32_t good = 0;               // steps since the scale changed
  std::int64_t step = 0, skipped = 0;  // steps that were taken, and that were not
  double mu_product = 1;               // nadam: of all momenta so far
  double norm_sum = 0;                 // of the gradients' norms since this was last made 0
  std::int64_t norms = 0;              // how many
  // Of the step under way.
  double norm = 0;                          // of all gradients, unscaled
  double time = 0, beta1 = 0.9;             // of the schedule; the first moment's decay
  double correction1 = 1, correction2 = 1;  // 1 - beta ^ step
  double mu = 0, mu_next = 0;               // nadam: this step's momentum and the next one's
  float gradient = 1;                       // gradients are multiplied by: unscaling, clipping
  std::int32_t skip = 0;                    // a gradient is not finite
};

// A tensor of weights. Pointers that an optimizer has no use for are null.
struct OptimTensor {
  float* weight = nullptr;
  const void* grad = nullptr;
  float *first = nullptr, *second = nullptr, *third = nullptr;
  VoxelType grad_type = VoxelType::f32;
  std::int64_t size = 0, since = 0;  // since: steps that were taken before it began
  double lr = 0, weight_decay = 0;

  friend bool operator==(const OptimTensor& a, const OptimTensor& b) {
    return a.weight == b.weight && a.grad == b.grad && a.first == b.first && a.second == b.second &&
           a.third == b.third && a.grad_type == b.grad_type && a.size == b.size &&
           a.since == b.since && a.lr == b.lr && a.weight_decay == b.weight_decay;
  }
};

// nadam's momentum of the n-th step, and the product of those of n steps; what is too small to
// matter is 0.
SLUICE_HD inline double nadam_mu(const OptimRule& r, double beta1, double n) {
  return beta1 * (1 - 0.5 * pow(0.96, n * r.momentum_decay));
}
SLUICE_HD inline double nadam_product(const OptimRule& r, double beta1, double n) {
  if (pow(beta1, n) < 1e-18) return 0;
  double product = 1;
  for (double k = 1; k <= n; ++k) product *= nadam_mu(r, beta1, k);
  return product;
}

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
  s.norm_sum += s.norm;
  ++s.norms;
  s.time = r.schedule.by_step ? static_cast<double>(s.step) : r.epoch;
  ++s.step;
  if (r.scaled && ++s.good == r.growth_interval) {
    s.good = 0;
    const float grown = static_cast<float>(s.scale * r.growth);
    if (grown <= 3.0e38f) s.scale = grown;
  }
  const double n = static_cast<double>(s.step);
  s.beta1 = momentum_at(r.schedule, r.by_momentum() ? r.momentum : r.beta1, s.time);
  s.correction1 = 1 - pow(s.beta1, n);
  s.correction2 = 1 - pow(r.beta2, n);
  if (r.kind == OptimKind::nadam) {
    s.mu = nadam_mu(r, s.beta1, n);
    s.mu_next = nadam_mu(r, s.beta1, n + 1);
    s.mu_product *= s.mu;
  }
}

// The sum of the squares of unscaled gradients, from that of scaled ones; of no bounded ones.
SLUICE_HD inline double plain_squares(const OptimState& s, double squares) {
  return squares * s.gradient * s.gradient;
}

// Novograd: the tensor's second moment from the squares of its unscaled, clipped gradient, and what
// that is multiplied by.
SLUICE_HD inline float novograd_scale(const OptimRule& r, double squares, float* second,
                                      float* largest) {
  double v = *second == 0 ? squares : r.beta2 * *second + (1 - r.beta2) * squares;
  *second = static_cast<float>(v);
  if (largest) {
    v = v > *largest ? v : *largest;
    *largest = static_cast<float>(v);
  }
  return static_cast<float>(1 / (sqrt(v) + r.eps));
}

// LAMB, LARS: how far the tensor goes along its direction, from the sums of squares of both.
SLUICE_HD inline float trust_ratio(const OptimRule& r, double weights, double direction,
                                   double weight_decay) {
  if (!(weights > 0 && direction > 0)) return 1.0f;
  if (r.kind == OptimKind::lamb) return static_cast<float>(sqrt(weights / direction));
  const double w = sqrt(weights);
  return static_cast<float>(r.trust_coefficient * w / (sqrt(direction) + weight_decay * w + r.eps));
}

// The operations on one number. The host has the same on vectors of them (optim.cpp).
struct OneNumber {
  SLUICE_HD static float mad(float a, float b, float c) { return fmaf(a, b, c); }
  SLUICE_HD static float mad2(float a, float b, float c, float d) { return fmaf(a, b, c * d); }
  SLUICE_HD static float root(float x) { return sqrtf(x); }
  SLUICE_HD static float larger(float a, float b) { return a > b ? a : b; }
  SLUICE_HD static float bounded(float x, float bound) { return fminf(fmaxf(x, -bound), bound); }
  SLUICE_HD static float magnitude(float x) { return fabsf(x); }
  SLUICE_HD static float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }
};

// One weight's update, with what is the same for all weights of a tensor worked out beforehand.
struct OptimValue {
  OptimKind kind;
  bool nesterov, has_first, has_third, rectified;
  // rate2: nadam's for the first moment; lamb's of the first moment in the direction; what asgd's
  // weight is multiplied by; lars' trust ratio.
  float gradient, bound, rate, rate2, root, shrink, decay, b1, b2, rest1, rest2, eps;

  // `scale`: novograd_scale() or trust_ratio(). `since`: what the tensor's own steps are counted
  // from, as torch does.
  SLUICE_HD static OptimValue of(const OptimRule& r, const OptimState& s, double lr,
                                 double weight_decay, float scale, std::int64_t since = 0) {
    OptimValue v;
    lr = learning_rate(r.schedule, lr, s.time);
    v.kind = r.kind;
    v.nesterov = r.nesterov;
    v.has_first = r.uses_first();
    v.has_third = r.uses_third();
    v.rectified = false;
    v.gradient = s.gradient;
    v.bound = static_cast<float>(r.max_value);
    v.rate = static_cast<float>(lr);
    v.rate2 = v.root = v.shrink = 1;
    v.b1 = static_cast<float>(s.beta1);
    v.b2 = static_cast<float>(r.beta2);
    v.rest1 = static_cast<float>(1 - s.beta1);
    v.rest2 = static_cast<float>(1 - r.beta2);
    v.eps = static_cast<float>(r.eps);
    const bool decoupled = r.decoupled || r.kind == OptimKind::lion;
    if (decoupled) v.shrink = static_cast<float>(1 - lr * weight_decay);
    v.decay = static_cast<float>(decoupled ? 0 : weight_decay);
    const double n = static_cast<double>(s.step - since);
    double c1 = s.correction1, c2 = s.correction2;
    double mu = s.mu, mu_next = s.mu_next, mu_product = s.mu_product;
    if (since > 0) {
      c1 = 1 - pow(s.beta1, n);
      c2 = 1 - pow(r.beta2, n);
      mu = nadam_mu(r, s.beta1, n);
      mu_next = nadam_mu(r, s.beta1, n + 1);
      if (r.kind == OptimKind::nadam) mu_product = nadam_product(r, s.beta1, n);
    }
    switch (r.kind) {
      case OptimKind::sgd:
        v.rest1 = static_cast<float>(n == 1 ? 1 : 1 - r.dampening);
        break;
      case OptimKind::adam:
        v.rate = static_cast<float>(lr / c1);
        v.root = static_cast<float>(1 / sqrt(c2));
        break;
      case OptimKind::novograd:
        v.gradient *= scale;
        v.bound *= scale;
        v.rest1 = static_cast<float>(r.grad_averaging ? 1 - s.beta1 : 1.0);
        break;
      case OptimKind::adamax:
        v.rate = static_cast<float>(lr / c1);
        break;
      case OptimKind::nadam:
        v.rate = static_cast<float>(lr * (1 - mu) / (1 - mu_product));
        v.rate2 = static_cast<float>(lr * mu_next / (1 - mu_product * mu_next));
        v.root = static_cast<float>(1 / sqrt(c2));
        break;
      case OptimKind::radam: {
        const double most = 2 / (1 - r.beta2) - 1, rho = most - 2 * n * (1 - c2) / c2;
        v.rectified = rho > 5;
        v.rate = static_cast<float>(lr / c1);
        if (v.rectified)
          v.rate = static_cast<float>(
              lr / c1 * sqrt(c2) *
              sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)));
        break;
      }
      case OptimKind::adagrad:
        v.rate = static_cast<float>(lr / (1 + (n - 1) * r.lr_decay));
        break;
      case OptimKind::asgd: {
        const double before = n - 1, eta = lr / pow(1 + r.lambd * lr * before, r.alpha);
        v.rate = static_cast<float>(eta);
        v.rate2 = static_cast<float>(1 - r.lambd * eta);
        const double averaged = before - r.t0;
        v.b1 = static_cast<float>(averaged > 1 ? 1 / averaged : 1);  // of the weight in the mean
        break;
      }
      case OptimKind::lars:
        v.rate2 = scale;
        break;
      case OptimKind::lamb:
        v.rate = static_cast<float>(lr) * scale;
        v.rate2 = static_cast<float>(1 / c1);
        v.root = static_cast<float>(1 / sqrt(c2));
        break;
      case OptimKind::rmsprop:
      case OptimKind::adadelta:
      case OptimKind::lion:
        break;
    }
    return v;
  }

  // Unscaled, clipped.
  template <class Math, class V>
  SLUICE_HD_INLINED V plain(const V& grad) const {
    const V g = grad * gradient;
    return bound > 0 ? Math::bounded(g, bound) : g;
  }

  // LAMB's first part: the moments; and its direction.
  template <class Math, class V>
  SLUICE_HD_INLINED void moments(const V& g, V& first, V& second) const {
    first = Math::mad2(b1, first, rest1, g);
    second = Math::mad2(b2, second, rest2 * g, g);
  }
  template <class Math, class V>
  SLUICE_HD_INLINED V direction(const V& w, const V& first, const V& second) const {
    return rate2 * first / Math::mad(Math::root(second), root, eps) + decay * w;
  }

  // The weight after the step. What a kind does not use is not touched; the three that it uses are
  // changed. LAMB's moments were.
  template <class Math, class V>
  SLUICE_HD_INLINED V updated(const V& w, const V& grad, V& first, V& second, V& third) const {
    if (kind == OptimKind::lamb) return w - rate * direction<Math>(w, first, second);
    const V x = w * shrink;
    const V g = Math::mad(decay, x, plain<Math>(grad));
    switch (kind) {
      case OptimKind::sgd:
        if (!has_first) return x - rate * g;
        first = Math::mad2(b1, first, rest1, g);
        return nesterov ? x - rate * Math::mad(b1, first, g) : x - rate * first;
      case OptimKind::novograd:
        first = Math::mad2(b1, first, rest1, g);
        return x - rate * first;
      case OptimKind::adam: {
        moments<Math>(g, first, second);
        if (has_third) third = Math::larger(third, second);
        const V top = has_third ? third : second;
        return x - rate * first / Math::mad(Math::root(top), root, eps);
      }
      case OptimKind::adamax:
        first = Math::mad2(b1, first, rest1, g);
        second = Math::larger(b2 * second, Math::magnitude(g) + eps);
        return x - rate * first / second;
      case OptimKind::nadam: {
        moments<Math>(g, first, second);
        return x - Math::mad2(rate, g, rate2, first) / Math::mad(Math::root(second), root, eps);
      }
      case OptimKind::radam:
        moments<Math>(g, first, second);
        return rectified ? x - rate * first / (Math::root(second) + eps) : x - rate * first;
      case OptimKind::rmsprop: {
        second = Math::mad2(b2, second, rest2 * g, g);
        if (has_third) third = Math::mad2(b2, third, rest2, g);
        const V spread = has_third ? second - third * third : second;
        const V along = g / (Math::root(spread) + eps);
        if (!has_first) return x - rate * along;
        first = Math::mad(b1, first, along);
        return x - rate * first;
      }
      case OptimKind::adagrad:
        second = Math::mad(g, g, second);
        return x - rate * g / (Math::root(second) + eps);
      case OptimKind::adadelta: {
        second = Math::mad2(b2, second, rest2 * g, g);
        const V along = Math::root(first + eps) / Math::root(second + eps) * g;
        first = Math::mad2(b2, first, rest2 * along, along);
        return x - rate * along;
      }
      case OptimKind::lion: {
        const V along = Math::sign(Math::mad2(b1, first, rest1, g));
        first = Math::mad2(b2, first, rest2, g);
        return x - rate * along;
      }
      case OptimKind::asgd: {
        const V next = x * rate2 - rate * g;
        second = Math::mad(b1, next - second, second);
        return next;
      }
      case OptimKind::lars: {
        const V along = g * rate2;
        if (!has_first) return x - rate * along;
        first = Math::mad(b1, first, along);
        return nesterov ? x - rate * Math::mad(b1, first, along) : x - rate * first;
      }
      case OptimKind::lamb:
        break;
    }
    return x;
  }
};

}  // namespace sluice::kernels
