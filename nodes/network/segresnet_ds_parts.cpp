#include "nodes/network/segresnet_ds_parts.h"

#include <algorithm>
#include <cmath>

#include "kernels/net/up.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

// The factor of each level's downsampling, by axis: a coarse axis waits until others are as coarse.
std::vector<Sizes> scales_of(const SegResDsParams& p) {
  const auto axes = static_cast<std::size_t>(p.spatial_dims);
  std::vector<Sizes> all(p.blocks_down.size(), Sizes(axes, 2));
  if (!p.resolution) return all;
  const double coarsest = *std::max_element(p.resolution->begin(), p.resolution->end());
  std::vector<std::size_t> halvings;  // of each axis, until all are alike
  for (const double r : *p.resolution)
    halvings.push_back(static_cast<std::size_t>(std::log2(coarsest / r)));
  const std::size_t most = *std::max_element(halvings.begin(), halvings.end());
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i)
    for (std::size_t a = 0; a < axes; ++a) all[i][a] = i < halvings[a] ? 2 : 1;
  return all;
}

Sizes kernel(const Sizes& scale) {
  Sizes k = scale;
  for (auto& n : k) n = n > 1 ? 3 : 1;
  return k;
}

Value bare(const Scope& s, const Value& x, std::int64_t out, const Sizes& scale,
           const PerAxis& stride) {
  return conv(s, x, out, {.kernel = kernel(scale), .stride = stride, .bias = false});
}

// The norm has parameters unless it is told otherwise; `number` is the convolution's after it.
Value active(const SegResDsParams& p, const Scope& s, const char* number, const Value& x) {
  NormOptions n = norm_of(p.norm);
  const bool told = p.norm.is_array() && p.norm.size() > 1 && p.norm[1].contains("affine");
  if (!told) n.affine = true;
  const std::string norm_name = std::string("norm") + number,
                    act_name = std::string("act") + number;
  return act(s / act_name, norm(s / norm_name, x, n), act_of(p.act));
}

Value block(const SegResDsParams& p, const Scope& s, const Value& x, const Sizes& scale) {
  const Value y = bare(s / "conv1", active(p, s, "1", x), x.channels, scale, 1);
  return bare(s / "conv2", active(p, s, "2", y), x.channels, scale, 1) + x;
}

Value head(const SegResDsParams& p, const Scope& s, const Value& x) {
  return conv(s / "head", x, p.out_channels, {.kernel = 1});
}

}  // namespace

Values SegResDs::way_down(const Scope& s, const Value& image) const {
  if (p.resolution) require_per_axis("resolution", p.resolution->size(), image.axes);
  const auto scales = scales_of(p);
  Value x = bare(s / "conv_init", image, p.init_filters, scales[0], 1);
  Values skips;
  for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
    const auto level = static_cast<std::int64_t>(i);
    if (i > 0)
      x = bare(s / "layers" / (level - 1) / "downsample", x, 2 * x.channels, scales[i - 1],
               scales[i - 1]);
    for (std::int64_t b = 0; b < p.blocks_down[i]; ++b)
      x = block(p, s / "layers" / level / "blocks" / b, x, scales[i]);
    skips.push_back(x);
  }
  return skips;
}

Values SegResDs::way_up(const Scope& s, const Values& skips) const {
  const std::size_t levels = skips.size();
  const Sizes blocks = p.blocks_up.value_or(Sizes(levels - 1, 1));
  require_length("blocks_up", blocks.size(), "blocks_down", levels, -1);
  const auto scales = scales_of(p);
  Value x = skips.back();
  Values outputs;
  if (levels == 1) outputs = {head(p, s / 0, x)};
  for (std::size_t i = 0; i + 1 < levels; ++i) {
    const Scope level = s / static_cast<std::int64_t>(i);
    const Sizes& scale = scales[levels - 2 - i];
    UpSampleOptions up{.scale_factor = scale, .kernel_size = kernel(scale)};
    up.mode = p.upsample_mode;
    up.align_corners = up.bias = false;
    x = upsample(level / "upsample", x, x.channels / 2, up) + skips[levels - 2 - i];
    for (std::int64_t b = 0; b < blocks[i]; ++b) x = block(p, level / "blocks" / b, x, scale);
    if (static_cast<std::int64_t>(levels - 1 - i) <= p.dsdepth)
      outputs.insert(outputs.begin(), head(p, level, x));
  }
  return outputs;
}

std::string SegResDs::unfit(at::IntArrayRef extents) const {
  auto scales = scales_of(p);
  scales.pop_back();
  return unless_strides_divide(extents, scales);
}

}  // namespace sluice
