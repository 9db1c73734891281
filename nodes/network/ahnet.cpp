// ahnet: MONAI's AHNet (monai.networks.nets.AHNet 1.6.1) with its parameter names and defaults.
// Liu et al. 2018. Kernels are 3 x 3 x 1 and 1 x 1 x 3, for volumes of thick slices.
//
//   x ─ conv1 ─────────────────────────────── + ─ dense4 ─ pooled at four scales ─ final ─▶ logits
//       └ pool ─────────────── trans1, + ─ dense3 ─ up3 ─┘
//           └ layer1 ─────── + ─ dense2 ─┘
//              └ layer2 ──── + ─ dense1 ─ up2 ─┘ ...
#include <cmath>

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct AhNet final : ImageNetwork<AhNet> {
  struct Params : ImageNet {
    std::vector<std::int64_t> layers{3, 4, 6, 3};
    std::int64_t psp_block_num = 4;
    std::string upsample_mode = "transpose";
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    return image_net<Params>("ahnet",
                             "Anisotropic hybrid network for volumes of thick slices (MONAI's "
                             "AHNet, without pretrained weights).",
                             false)
        .param("layers", &Params::layers, "Residual blocks of the four levels.")
        .at_least(1)
        .length(4, 4)
        .param("psp_block_num", &Params::psp_block_num, "Scales that are pooled before the end.")
        .range(0, 4)
        .param("upsample_mode", &Params::upsample_mode, "How extents are doubled.")
        .choices({"transpose", "bilinear", "trilinear", "nearest"});
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.upsample_mode == (image.axes == 3 ? "bilinear" : "trilinear"))
      refuse("upsample_mode " + p.upsample_mode + " is not for " + std::to_string(image.axes) +
             " axes");
    Value x = bare(s / "conv1", image, 64, last(7, 7, 3), last(2, 2, 1));
    x = relu(norm(s / "bn0", max_pool(x, {.kernel = last(1, 1, 2)})));
    const Value first = x;
    const bool plain = p.upsample_mode == "transpose" || p.upsample_mode == "nearest";
    x = max_pool(x, {.kernel = plain ? 2 : 3, .stride = 2, .padding = plain ? 0 : 1});
    const Value pooled = x;
    Values levels;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::int64_t b = 0; b < p.layers[i]; ++b)
        x = residual(s / ("layer" + std::to_string(i + 1)) / b, x, 64 << i,
                     i > 0 && b == 0 ? 2 : 1);
      levels.push_back(x);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const Value& skip = levels[2 - i];
      const std::string n = std::to_string(i);
      x = dense(s / ("dense" + n), up(s / ("up" + n), x, skip.channels) + skip);
    }
    x = bare(s / "trans1.conv", norm_relu(s / "trans1.norm", x), 64, 1, 1);
    x = dense(s / "dense3", x + pooled);
    x = dense(s / "dense4", up(s / "up3", x, 64) + first);
    Values scales;
    for (std::int64_t i = 0; i < p.psp_block_num; ++i) scales.push_back(scale(s / "psp", x, i));
    scales.push_back(x);
    x = concat(scales);
    x = bare(s / "final.conv", norm_relu(s / "final.norm", x), p.out_channels, last(3, 3, 1), 1);
    return {twice(s / "final.up", x)};
  }

 private:
  // Of three numbers those of the last axes, as MONAI takes them.
  PerAxis last(std::int64_t a, std::int64_t b, std::int64_t c) const {
    return p.spatial_dims == 3 ? PerAxis{a, b, c} : PerAxis{b, c};
  }
  PerAxis first(std::int64_t a, std::int64_t b, std::int64_t c) const {
    return p.spatial_dims == 3 ? PerAxis{a, b, c} : PerAxis{a, b};
  }
  // Normal, by the first two extents of the kernel and the channels it makes.
  static Init init(const PerAxis& kernel, std::int64_t out, int axes) {
    const auto k = kernel.over(axes);
    return Init::normal(std::sqrt(2.0 / static_cast<double>(k[0] * k[1] * out)));
  }
  static Value bare(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                    const PerAxis& stride) {
    return conv(
        s, x, out,
        {.kernel = kernel, .stride = stride, .bias = false, .init = init(kernel, out, x.axes)});
  }
  static Value norm_relu(const Scope& s, const Value& x) { return relu(norm(s, x)); }
  // Bottleneck3x3x1.
  Value residual(const Scope& s, const Value& x, std::int64_t planes, std::int64_t stride) const {
    const PerAxis strides = first(stride, stride, 1);
    Value y = norm_relu(s / "bn1", bare(s / "conv1", x, planes, 1, 1));
    y = norm_relu(s / "bn2", bare(s / "conv2", y, planes, last(3, 3, 1), strides));
    y = norm(s / "bn3", bare(s / "conv3", y, 4 * planes, 1, 1));
    if (stride == 1 && x.channels == 4 * planes) return relu(y + x);
    Value beside = bare(s / "downsample.0", x, 4 * planes, 1, strides);
    if (p.spatial_dims == 3 && stride > 1) {
      beside = max_pool(beside, {.kernel = {1, 1, stride}});
      y = max_pool(y, {.kernel = {1, 1, 2}});
    }
    return relu(y + norm(s / "downsample.2", beside));
  }
  Value dense(const Scope& s, const Value& x) const {
    constexpr std::int64_t growth = 20, wide = 4 * growth;
    Value all = x;
    for (int i = 1; i <= 3; ++i) {
      const Scope at = s / ("denselayer" + std::to_string(i));
      Value y = bare(at / "conv1", norm_relu(at / "bn1", all), wide, 1, 1);
      y = bare(at / "conv2", norm_relu(at / "bn2", y), growth, last(3, 3, 1), 1);
      y = y + bare(at / "conv3", norm_relu(at / "bn3", y), growth, last(1, 1, 3), 1);
      all = concat({all, bare(at / "conv4", norm_relu(at / "bn4", y), growth, 1, 1)});
    }
    return all;
  }
  Value twice(const Scope& s, const Value& x) const {
    if (p.upsample_mode != "transpose") return magnified(x, 2, p.upsample_mode != "nearest", true);
    ConvOptions c{.kernel = 2, .stride = 2, .padding = 0, .bias = false};
    c.transposed = true;
    c.init = init(2, x.channels, x.axes);
    return conv(s, x, x.channels, c);
  }
  Value up(const Scope& s, const Value& x, std::int64_t out) const {
    return twice(s / "up", bare(s / "conv", norm_relu(s / "norm", x), out, 1, 1));
  }
  Value scale(const Scope& s, const Value& x, std::int64_t i) const {
    const std::int64_t n = 8 << i;
    const PerAxis size = last(n, n, 1);
    const Value y = conv(s / "project_modules" / i, max_pool(x, {.kernel = size}), 1,
                         {.kernel = 1, .padding = last(1, 1, 0), .init = init(1, 1, x.axes)});
    if (p.upsample_mode == "nearest") return resized(y, x);
    if (p.upsample_mode != "transpose") return resized_linear(y, x, true);
    ConvOptions c{.kernel = size, .stride = size, .padding = last(n, n, 0)};
    c.transposed = true;
    c.init = init(size, 1, x.axes);
    return conv(s / "up_modules" / i, y, 1, c);
  }

  std::string unfit(at::IntArrayRef extents) const override {
    const std::int64_t pools = std::int64_t{1} << (p.psp_block_num + 3);
    for (std::size_t a = 0; a < extents.size(); ++a) {
      const bool is_last = a + 1 == extents.size(), transposed = p.upsample_mode == "transpose";
      const std::int64_t step = !is_last && transposed ? std::max<std::int64_t>(32, pools) : 32;
      if (extents[a] % step != 0 || (!is_last && extents[a] < pools))
        return "takes extents that are multiples of " + std::to_string(step) + " along axis " +
               std::to_string(a) + " and " + std::to_string(pools) + " or more, got " +
               c10::str(extents);
    }
    return "";
  }
};

const RegisterNetwork<AhNet> registered;

}  // namespace
}  // namespace sluice
