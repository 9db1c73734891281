// What fused augmentation does to one field of one sample, as plain data that host and device read:
//
//   view of the cached volume -> at most one resampling -> flips, turns, crops -> voxel by voxel
//                                                                                 operations
//
// A view is a window of the volume with strides of its own, so crops, flips and quarter turns in
// front of the resampling cost nothing; those after it are a renumbering of the output's voxels.
// kernels/augment/augment_chain.h makes jobs from a list of operations.
//
// Invariant: a job changes nothing but its output and its part of the workspace; pointers are all
// host pointers, or all device pointers.
#pragma once

#include <cstdint>

#include "kernels/base/voxel_type.h"
#include "kernels/image/sampling.h"

namespace sluice::kernels {

inline constexpr int augment_ops = 16;
inline constexpr int blur_reach = 16;  // voxels to each side: sigma up to 4
inline constexpr int bias_terms = 20;  // i + j + k <= 3

// [channels, x, y, z]; strides count elements and may be negative.
struct AugmentView {
  const void* data = nullptr;
  VoxelType type = VoxelType::f32;
  std::int32_t channels = 1, size[3] = {1, 1, 1};
  std::int64_t channel_stride = 0, stride[3] = {0, 0, 1};
  float gain = 1, offset = 0;  // a voxel's value is  raw * gain + offset
};
struct AugmentOutput {
  void* data = nullptr;
  VoxelType type = VoxelType::f32;
  std::int32_t size[3] = {1, 1, 1};
  std::int64_t channel_stride = 0, stride[3] = {0, 0, 1};
};

// Output voxel o stands for voxel p of the grid that is sampled: p[d] = sign[d] o[from[d]] +
// shift[d].
struct AugmentMoves {
  std::int8_t from[3] = {0, 1, 2}, sign[3] = {1, 1, 1};
  std::int32_t shift[3] = {0, 0, 0};
};

// Where p reads the view: at  matrix * (p + displacement(p)), or, without resampling, at p itself.
struct AugmentSampling {
  bool resample = false;
  Interpolation mode = Interpolation::linear;
  Padding padding = Padding::border;
  float fill = 0;                // without resampling: what lies outside the view
  double matrix[12] = {};        // three rows of four
  const float* nodes = nullptr;  // displacement [3, a, b, c] at every step-th voxel, or none
  std::int32_t node_count[3] = {0, 0, 0}, node_step = 1;
};

enum class AugmentKind : std::uint8_t {
  linear,          // x a0 + a1
  normalize,       // (x - a0) / a1; a2 != 0: zeros stay
  rescale,         // intensity_math.h's Rescale: low, range, gain, offset, least, most
  shift,           // x + a0; a1 != 0: zeros stay
  saturation,      // x a0 + gray a1 within 0..1: red, green and blue, as color.h has them
  hue,             // a turn by a0 of the circle
  noise,           // x + a0 + a1 n, n standard normal by (counter, key)
  uniform,         // x + a0 (2 u - 1), u uniform by (counter, key): what displacements are made of
  hole,            // a6 where x is in [a0, a1), y in [a2, a3) and z in [a4, a5)
  bias,            // x exp(Legendre series), the job's `bias`
  contrast,        // MONAI's AdjustContrast: gamma a0, sign a1; by the image's range
  mean_contrast,   // (x - mean) a0 + mean, held inside the image's range where a1 != 0
  gray_contrast,   // x a0 + m (1 - a0) within 0..1, m the mean gray of all channels (red, green,
                   // blue)
  std_shift,       // x + a0 std; a1 != 0: of voxels that are not 0, and only them
  standardize,     // (x - a0) / a1; a2 != 0: of voxels that are not 0, and only them; a3 != 0: by
                   // the image's mean and not a0, a4 != 0: by its deviation (1 where it is flat)
  to_range,        // the image's range to a1, a1 + a0; where it is flat: x a2
  restore,         // back to mean and deviation that the image had before the last contrast
  blur,            // Gaussian, the job's `taps`; zeros outside
  low_resolution,  // down to a0 a1 a2 voxels by nearest, and back up linearly
};
inline constexpr std::int32_t all_channels = -1, each_channel = -2;

// Of one channel, of all, whose statistics are then taken together, or of each by its own.
struct AugmentOp {
  AugmentKind kind = AugmentKind::linear;
  std::int32_t channel = all_channels;
  float a[8] = {};
  std::uint64_t key = 0, counter = 0;
};

struct AugmentJob {
  AugmentView in;
  AugmentSampling sampling;
  AugmentMoves moves;
  AugmentOutput out;
  std::int32_t op_count = 0;
  AugmentOp ops[augment_ops];
  double bias[bias_terms] = {};            // in the order of bias_table()
  std::int32_t reach[3] = {0, 0, 0};       // of the blur, an axis
  float taps[3][2 * blur_reach + 1] = {};  // taps[d][0 .. 2 reach[d]]
};

}  // namespace sluice::kernels
