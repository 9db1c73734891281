// One voxel of a random field's update: softmax of logits and what its neighbours say, and the
// adjoint. For host and device.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

template <class T>
struct CrfCall {
  std::int64_t members = 1, classes = 1, n = 0;  // arrays are [members, classes, n]
  T factor = 0;
  // Forward: a: logits, b: messages, out: probabilities. Backward: a: probabilities, b: their
  // gradient, out: that of the logits.
  const T *a = nullptr, *b = nullptr;
  T* out = nullptr;
};

template <class T>
SLUICE_HD inline void crf_update(const CrfCall<T>& call, std::int64_t i) {
  const std::int64_t n = call.n, at = i / n * call.classes * n + i % n;
  const T *logit = call.a + at, *message = call.b + at;
  T *p = call.out + at, most = 0, sum = 0;
  for (std::int64_t k = 0; k < call.classes; ++k) {
    p[k * n] = mad(call.factor, message[k * n], logit[k * n]);
    most = k == 0 || most < p[k * n] ? p[k * n] : most;
  }
  for (std::int64_t k = 0; k < call.classes; ++k) {
    p[k * n] = power_of_two((p[k * n] - most) * T(1.4426950408889634));
    sum += p[k * n];
  }
  for (std::int64_t k = 0; k < call.classes; ++k) p[k * n] /= sum;
}

template <class T>
SLUICE_HD inline void crf_slope(const CrfCall<T>& call, std::int64_t i) {
  const std::int64_t n = call.n, at = i / n * call.classes * n + i % n;
  const T *p = call.a + at, *g = call.b + at;
  T mean = 0;
  for (std::int64_t k = 0; k < call.classes; ++k) mean = mad(p[k * n], g[k * n], mean);
  for (std::int64_t k = 0; k < call.classes; ++k)
    call.out[at + k * n] = p[k * n] * (g[k * n] - mean);
}

}  // namespace sluice::kernels
