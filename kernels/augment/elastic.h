// Random smooth displacement fields: uniform noise under a Gaussian, as MONAI's Rand3DElastic.
//
// MONAI draws -1..1 for every voxel, smooths with sigma and scales by magnitude; at sigma 5 to 7
// that is a hundred multiplications a voxel for a field that hardly changes between neighbours.
// Here noise is drawn and smoothed on every step-th voxel only (step = sigma / 2, at least 1), its
// amplitude raised so that the field has the variance MONAI's has, and what lies between is
// interpolated linearly while resampling. The standard deviation is within 3 % of the dense
// field's; below sigma 4 the field is the dense one. Outside the volume the noise is 0, so the
// field dies down towards the faces, as MONAI's does.
#pragma once

#include "kernels/augment/augment_job.h"
#include "kernels/image/resample.h"

namespace sluice {

// Weights -n..n of a Gaussian integrated over each voxel, cut at 3 sigma, not normalised.
std::vector<float> gaussian_taps(double sigma);

// field [3, X, Y, Z] float32, filtered along all three axes with zeros outside.
at::Tensor smooth(const at::Tensor& field, const std::vector<float>& taps);

// Draw i of the noise is word i % 4 of philox(i / 4, counter_high, key).
Displacement random_displacement(const Shape3& shape, double sigma, double magnitude,
                                 std::uint64_t key, std::uint64_t counter_high);

// The same field as a job of fused augmentation, which makes it where its pointers are: `zero` is
// one float that is 0, `nodes` has room for 3 x displacement_nodes() floats.
struct DisplacementJob {
  kernels::AugmentJob job;
  Shape3 count;  // nodes an axis
  int step;
};
Shape3 displacement_nodes(const Shape3& shape, double sigma);
DisplacementJob displacement_job(const Shape3& shape, double sigma, double magnitude,
                                 std::uint64_t key, std::uint64_t counter_high, const float* zero,
                                 float* nodes);

}  // namespace sluice
