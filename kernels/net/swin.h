// The Swin transformer of MONAI's SwinUNETR: attention within windows, which every second block
// shifts by half of their extents. Liu et al. 2021.
//
//   image ─ tokens ─ [norm, windows, attention, back, +; norm, perceptron, +] ... ─ merged ─▶ image
//
// Invariant: tokens [N, T, C] follow the image's voxels, the last axis fastest; within windows they
// come window by window. An image of the same extents goes beside them, for its extents alone.
#pragma once

#include "kernels/net/ops.h"

namespace sluice {

struct SwinOptions {
  std::int64_t depth = 2, heads = 3;
  std::vector<std::int64_t> window;  // one number an axis
  double mlp_ratio = 4;
  bool qkv_bias = true;
  double drop = 0, attn_drop = 0;
  std::vector<double> drop_path;  // by block
  bool merging_v2 = false;        // another order of the merged voxels
};
// MONAI's BasicLayer: NAME.blocks.I, then NAME.downsample to half of the extents and twice the
// channels.
Value swin_stage(const Scope& s, const Value& image, const SwinOptions& o);
// Layer norm of an image, or of tokens, over its channels, without parameters, or NAME.weight and
// NAME.bias.
Value channel_norm(const Value& image);
Value channel_norm(const Scope& s, const Value& image, double eps = 1e-5);

}  // namespace sluice
