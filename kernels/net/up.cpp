#include "kernels/net/up.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor linear_to(const at::Tensor& x, at::IntArrayRef size, bool align_corners) {
  return x.dim() == 5   ? at::upsample_trilinear3d(x, size, align_corners)
         : x.dim() == 4 ? at::upsample_bilinear2d(x, size, align_corners)
                        : at::upsample_linear1d(x, size, align_corners);
}

at::Tensor nearest_to(const at::Tensor& x, at::IntArrayRef size) {
  return x.dim() == 5   ? at::upsample_nearest3d(x, size)
         : x.dim() == 4 ? at::upsample_nearest2d(x, size)
                        : at::upsample_nearest1d(x, size);
}

namespace {

// [N, C f^d, ...] as [N, C, f ...]: a group of channels is a cube of voxels.
Value shuffled(const Value& x, std::int64_t factor) {
  std::int64_t all = 1;
  for (int a = 0; a < x.axes; ++a) all *= factor;
  const auto function = [factor, all](In t) {
    const std::int64_t axes = t[0].dim() - 2;
    std::vector<std::int64_t> split{t[0].size(0), t[0].size(1) / all}, order{0, 1};
    std::vector<std::int64_t> size = split;
    split.insert(split.end(), static_cast<std::size_t>(axes), factor);
    for (std::int64_t a = 0; a < axes; ++a) {
      split.push_back(t[0].size(a + 2));
      size.push_back(t[0].size(a + 2) * factor);
      order.push_back(2 + axes + a);
      order.push_back(2 + a);
    }
    return t[0].reshape(split).permute(order).reshape(size);
  };
  return x.op("pixelshuffle", function,
              {.channels = x.channels / all, .attributes = {{"factor", factor}}});
}

// The mean of each voxel and those before it, zeros before the first.
Value smoothed(const Value& x, std::int64_t factor) {
  return avg_pool(padded(x, {static_cast<std::size_t>(x.axes), {factor - 1, 0}}),
                  {.kernel = factor, .stride = 1});
}

Value pixelshuffled(const Scope& s, const Value& x, std::int64_t out, const UpSampleOptions& o) {
  const auto factors = o.scale_factor.over(x.axes);
  const std::int64_t factor = factors[0];
  std::int64_t group = 1;
  for (const std::int64_t f : factors) {
    if (f != factor)
      s.refuse("pixelshuffle has one factor for all axes, found " +
               c10::str(at::IntArrayRef(factors)));
    group *= f;
  }
  Value y = x;
  if (o.pre_conv)
    y = conv(s / "conv_block", x, out * group,
             {.kernel = 3, .bias = o.bias, .init = Init::icnr(group)});
  y = shuffled(y, factor);
  return o.apply_pad_pool ? smoothed(y, factor) : y;
}

Value deconvolved(const Scope& s, const Value& x, std::int64_t out, const UpSampleOptions& o) {
  const auto scale = o.scale_factor.over(x.axes);
  ConvOptions c{.kernel = scale, .stride = scale, .padding = 0};
  c.transposed = true;
  c.bias = o.bias;
  if (o.kernel_size) {
    const auto kernel = o.kernel_size->over(x.axes);
    auto more = scale;
    for (std::size_t a = 0; a < scale.size(); ++a) more[a] = scale[a] - 1 - (kernel[a] - 1) % 2;
    c.kernel = kernel;
    c.padding.reset();
    c.output_padding = more;
  }
  return conv(s, x, out, c);
}

}  // namespace

const std::vector<std::string>& upsample_modes() {
  static const std::vector<std::string> all{"deconv", "nontrainable", "pixelshuffle"};
  return all;
}

Value magnified(const Value& x, const PerAxis& factor, bool linear, bool align_corners) {
  const auto factors = factor.over(x.axes);
  const auto function = [factors, linear, align_corners](In t) {
    std::vector<std::int64_t> size = t[0].sizes().slice(2).vec();
    for (std::size_t a = 0; a < size.size(); ++a) size[a] *= factors[a];
    return linear ? linear_to(t[0], size, align_corners) : nearest_to(t[0], size);
  };
  const std::string mode = linear ? "linear" : "nearest";
  return x.op(
      "resize", function,
      {.attributes = {{"mode", mode}, {"factor", factors}, {"align_corners", align_corners}}});
}

Value shrunk(const Value& x, std::int64_t by) {
  const auto function = [by](In t) {
    std::vector<std::int64_t> size = t[0].sizes().slice(2).vec();
    for (auto& n : size) n /= by;
    return linear_to(t[0], size, true);
  };
  return x.op("resize", function,
              {.attributes = {{"mode", "linear"}, {"divided_by", by}, {"align_corners", true}}});
}

Value resized_linear(const Value& x, const Value& like, bool align_corners) {
  const auto function = [align_corners](In t) {
    return linear_to(t[0], t[1].sizes().slice(2), align_corners);
  };
  return x.op(
      "resize", function,
      {.with = {like}, .attributes = {{"mode", "linear"}, {"align_corners", align_corners}}});
}

Value padded_to(const Value& x, const Value& like) {
  const auto function = [](In t) {
    std::vector<std::int64_t> pads;  // last axis first
    bool any = false;
    for (std::int64_t a = t[0].dim() - 1; a > 1; --a) {
      pads.push_back(0);
      pads.push_back(t[1].size(a) - t[0].size(a));
      any = any || pads.back() != 0;
    }
    if (!any) return t[0].alias();
    return t[0].dim() == 5   ? at::replication_pad3d(t[0], pads)
           : t[0].dim() == 4 ? at::replication_pad2d(t[0], pads)
                             : at::replication_pad1d(t[0], pads);
  };
  return x.op("pad", function, {.with = {like}, .attributes = {{"mode", "replicate"}}});
}

Value upsample(const Scope& s, const Value& x, std::int64_t out, const UpSampleOptions& o) {
  if (o.mode == "deconv") return deconvolved(s / "deconv", x, out, o);
  if (o.mode == "pixelshuffle") return pixelshuffled(s / "pixelshuffle", x, out, o);
  Value y = x;
  if (o.pre_conv && x.channels != out)
    y = conv(s / "preconv", x, out, {.kernel = 1, .bias = o.bias});
  return magnified(y, o.scale_factor, o.interp_mode != "nearest", o.align_corners);
}

Value two_conv(const Scope& s, const Value& x, std::int64_t out, const Adn& adn, bool bias) {
  const ConvolutionOptions c{.adn = adn, .bias = bias};
  return convolution(s / "conv_1", convolution(s / "conv_0", x, out, c), out, c);
}

Value up_cat(const Scope& s, const Value& x, const Values& skips, std::int64_t out,
             const UpCatOptions& o) {
  const bool kept = o.up.mode == "nontrainable" && !o.up.pre_conv;
  const std::int64_t up = kept || !o.halves ? x.channels : x.channels / 2;
  Value y = upsample(s / "upsample", x, up, o.up);
  if (!skips.empty()) {
    Values all = skips;
    all.push_back(o.is_pad ? padded_to(y, skips[0]) : y);
    y = concat(all);
  }
  return two_conv(s / "convs", y, out, o.adn, o.bias);
}

Value unet_decoder(const Scope& s, const Values& features,
                   const std::vector<std::int64_t>& channels, UpCatOptions o) {
  Value x = features.back();
  for (std::size_t i = 0; i < channels.size(); ++i) {
    o.halves = i + 1 < features.size();
    x = up_cat(s / "blocks" / static_cast<std::int64_t>(i), x,
               o.halves ? Values{features[features.size() - 2 - i]} : Values{}, channels[i], o);
  }
  return x;
}

}  // namespace sluice
