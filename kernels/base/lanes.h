// Loops over lanes that the host makes vectors of and the device unrolls: what functors with
// several voxels at a time are written with.
//
//   SLUICE_LANES
//   for (int l = 0; l < Lanes; ++l) sum[l] = mad(w[l], x[l], sum[l]);
//
// Invariant: every product that is added to is a fused one by name, so that float has the same bits
// on host and device; double is as exact as the C library.
#pragma once

#include <cmath>

#include "kernels/base/intensity_math.h"

#if defined(_OPENMP) && !defined(__CUDACC__)
#define SLUICE_LANES _Pragma("omp simd")
#else
#define SLUICE_LANES
#endif
#ifdef __CUDA_ARCH__
#define SLUICE_UNROLL _Pragma("unroll")  // so that an array stays in registers
#else
#define SLUICE_UNROLL
#endif

namespace sluice::kernels {

SLUICE_HD inline double mad(double a, double b, double c) { return fma(a, b, c); }

// 2^y; 0 where float has no normal number.
SLUICE_HD inline float power_of_two(float y) { return y < -126.0f ? 0.0f : exp2_bounded(y); }
SLUICE_HD inline double power_of_two(double y) { return exp2(y); }

}  // namespace sluice::kernels
