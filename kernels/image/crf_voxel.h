// Some voxels of a random field's update: softmax of logits and what their neighbours say, and the
// adjoint. For host and device.
#pragma once

#include "kernels/base/lanes.h"

namespace sluice::kernels {

template <class T>
struct CrfCall {
  std::int64_t members = 1, classes = 1, n = 0;  // arrays are [members, classes, n]
  // Forward: a: logits, b and c: messages, each with its factor, where there are such; out:
  // probabilities. Backward: a: probabilities, b: their gradient; out: that of the logits.
  const T *a = nullptr, *b = nullptr, *c = nullptr;
  T by_b = 0, by_c = 0;
  T* out = nullptr;
};

template <class T, int Lanes>
SLUICE_HD inline void add_message(const T* message, T factor, T* to) {
  SLUICE_LANES
  for (int l = 0; l < Lanes; ++l) to[l] = mad(factor, message[l], to[l]);
}
template <class T, int Lanes>
SLUICE_HD inline void add_products(const T* a, const T* b, T* to) {
  SLUICE_LANES
  for (int l = 0; l < Lanes; ++l) to[l] = mad(a[l], b[l], to[l]);
}

// Of Lanes voxels of a member, from number i of all on.
template <class T, int Lanes>
SLUICE_HD inline void crf_update(const CrfCall<T>& call, std::int64_t i) {
  const std::int64_t n = call.n, at = i / n * call.classes * n + i % n;
  T most[Lanes], sum[Lanes];
  for (int l = 0; l < Lanes; ++l) most[l] = T(-INFINITY), sum[l] = 0;
  for (std::int64_t k = 0; k < call.classes; ++k) {
    const T* logit = call.a + at + k * n;
    T* p = call.out + at + k * n;
    T v[Lanes];
    for (int l = 0; l < Lanes; ++l) v[l] = logit[l];
    if (call.b) add_message<T, Lanes>(call.b + at + k * n, call.by_b, v);
    if (call.c) add_message<T, Lanes>(call.c + at + k * n, call.by_c, v);
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      most[l] = most[l] < v[l] ? v[l] : most[l];
      p[l] = v[l];
    }
  }
  for (std::int64_t k = 0; k < call.classes; ++k) {
    T* p = call.out + at + k * n;
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) {
      const T e = power_of_two((p[l] - most[l]) * T(1.4426950408889634));
      sum[l] += e;
      p[l] = e;
    }
  }
  for (std::int64_t k = 0; k < call.classes; ++k) {
    T* p = call.out + at + k * n;
    for (int l = 0; l < Lanes; ++l) p[l] /= sum[l];
  }
}

template <class T, int Lanes>
SLUICE_HD inline void crf_slope(const CrfCall<T>& call, std::int64_t i) {
  const std::int64_t n = call.n, at = i / n * call.classes * n + i % n;
  T mean[Lanes];
  for (int l = 0; l < Lanes; ++l) mean[l] = 0;
  for (std::int64_t k = 0; k < call.classes; ++k)
    add_products<T, Lanes>(call.a + at + k * n, call.b + at + k * n, mean);
  for (std::int64_t k = 0; k < call.classes; ++k) {
    const T *p = call.a + at + k * n, *g = call.b + at + k * n;
    T* out = call.out + at + k * n;
    SLUICE_LANES
    for (int l = 0; l < Lanes; ++l) out[l] = p[l] * (g[l] - mean[l]);
  }
}

}  // namespace sluice::kernels
