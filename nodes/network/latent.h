// What networks with latent numbers share: the draw between encoder and decoder, and the image that
// the decoder begins with.
//
//   x ─┬─ mu ─────┬─ z = mu + exp(logvar / 2) * noise ─ linear ─ image of a shape
//      └─ logvar ─┘
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <numeric>

#include "engine/graph/spec.h"
#include "kernels/net/ops.h"

namespace sluice {

inline std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Of the normal distribution with this mean and deviation; the mean outside of training.
inline Value noised(const Value& mean, const Value& deviation) {
  return mean.op("noised", [](In t) { return t[0] + t[1] * t[2]; },
                 {.with = {deviation, normals(mean)}});
}
// ... and this logarithm of the variance; `at_rest`: the noise outside of training.
inline Value noised_by_logvar(const Value& mu, const Value& logvar, double at_rest = 0) {
  return mu.op("noised", [](In t) { return t[0] + at::exp(0.5 * t[1]) * t[2]; },
               {.with = {logvar, normals(mu, at_rest)}});
}

// Numbers [N, product] as images of this shape, channels first.
inline Value image_of(const Value& x, const std::vector<std::int64_t>& shape) {
  return x.op("to_image", [shape](In t) { return t[0].unflatten(1, shape); },
              {.channels = shape[0], .axes = static_cast<int>(shape.size()) - 1});
}

// ---- MONAI's variational networks ---------------------------------------------------------------

struct LatentParams {
  std::int64_t latent_size = 0;
  bool use_mean_at_inference = false;
};

template <class P>
Spec& add_latent_params(Spec& s) {
  return s
      .param("latent_size", static_cast<std::int64_t P::*>(&LatentParams::latent_size),
             "Latent numbers.")
      .at_least(1)
      .required()
      .param("use_mean_at_inference", static_cast<bool P::*>(&LatentParams::use_mean_at_inference),
             "Outside training z is mu; else mu + deviation, as in MONAI.");
}

struct Latent {
  Value mu, logvar, z;
};
// Of numbers [N, C]: NAME.mu, NAME.logvar.
inline Latent latent_of(const Scope& s, const Value& x, const LatentParams& p) {
  const Value mu = linear(s / "mu", x, p.latent_size);
  const Value logvar = linear(s / "logvar", x, p.latent_size);
  return {mu, logvar, noised_by_logvar(mu, logvar, p.use_mean_at_inference ? 0 : 1)};
}

}  // namespace sluice
