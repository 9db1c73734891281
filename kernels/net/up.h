// Ways up, under MONAI's names: UpSample, and the blocks of BasicUNet.
#pragma once

#include "kernels/net/blocks.h"

namespace sluice {

struct UpSampleOptions {
  PerAxis scale_factor = 2;
  std::optional<PerAxis> kernel_size = {};  // of "deconv": the scale
  std::string mode = "deconv";              // or "nontrainable", "pixelshuffle"
  bool pre_conv = true;                     // where channels change, and of "pixelshuffle"
  std::string interp_mode = "linear";       // or "nearest", of "nontrainable"
  bool align_corners = true, bias = true, apply_pad_pool = true;
};
const std::vector<std::string>& upsample_modes();
// NAME.deconv, NAME.preconv or NAME.pixelshuffle.conv_block.
Value upsample(const Scope& s, const Value& x, std::int64_t out, const UpSampleOptions& o = {});
// [N, C, ...] with these extents, linear between voxels, or by the nearest voxel.
at::Tensor linear_to(const at::Tensor& x, at::IntArrayRef size, bool align_corners);
at::Tensor nearest_to(const at::Tensor& x, at::IntArrayRef size);
// Each extent times its factor: linear between voxels, or by the nearest.
Value magnified(const Value& x, const PerAxis& factor, bool linear, bool align_corners);
// Each extent divided by `by` and rounded down, linear between voxels, corners on corners.
Value shrunk(const Value& x, std::int64_t by);
// To the extents of `like`, linear.
Value resized_linear(const Value& x, const Value& like, bool align_corners);
// The last voxels repeated up to the extents of `like`.
Value padded_to(const Value& x, const Value& like);

// TwoConv and UpCat.
Value two_conv(const Scope& s, const Value& x, std::int64_t out, const Adn& adn, bool bias);
struct UpCatOptions {
  Adn adn = {};
  bool bias = true, halves = true, is_pad = true;
  UpSampleOptions up = {};
};
// Beside what comes up stand the skips, if any, in front of it.
Value up_cat(const Scope& s, const Value& x, const Values& skips, std::int64_t out,
             const UpCatOptions& o);
// From the last of five features up to the image's extents, a block for each of `channels`:
// NAME.blocks.I (FlexibleUNet's decoder).
Value unet_decoder(const Scope& s, const Values& features,
                   const std::vector<std::int64_t>& channels, UpCatOptions o);

}  // namespace sluice
