// quicknat: MONAI's Quicknat (monai.networks.nets.Quicknat 1.6.1) with its parameter names and
// defaults. Guha Roy et al. 2019. Where a level pooled its maxima from, it puts its results back.
//
//   x ─ dense ─────────────────── dense ─ 1x1 ─▶ logits      model.0, model.1.submodule.*, model.2
//        └ pool ─ dense ─ ... ─ dense ─ unpool ─┘
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct Quicknat final : ImageNetwork<Quicknat> {
  struct Params : ImageNet {
    std::int64_t num_filters = 64;
    std::vector<std::int64_t> kernel_size{5};
    std::int64_t kernel_c = 1, stride_conv = 1, pool = 2, stride_pool = 2;
    std::optional<std::string> se_block = "None";
    double drop_out = 0;
    Params() {
      spatial_dims = 2;
      out_channels = 33;
    }
  } p;

  static Spec spec() {
    return image_net<Params>("quicknat",
                             "Densely connected U-Net of slices (MONAI's Quicknat, whose "
                             "num_channels and num_classes are in_channels and out_channels).",
                             false)
        .param("num_filters", &Params::num_filters, "Channels of every convolution.")
        .at_least(2)
        .param("kernel_size", &Params::kernel_size, "Odd; a number or one a dimension.")
        .at_least(1)
        .param("kernel_c", &Params::kernel_c, "Kernel of the last convolution.")
        .at_least(1)
        .param("stride_conv", &Params::stride_conv, "Its stride.")
        .at_least(1)
        .param("pool", &Params::pool, "Kernel of the pools.")
        .at_least(1)
        .param("stride_pool", &Params::stride_pool, "Their stride.")
        .at_least(1)
        .param("se_block", &Params::se_block, "CSE: squeeze and excitation ends each block.")
        .choices({"None", "CSE"})
        .param("drop_out", &Params::drop_out,
               "Probability that a channel that a block makes becomes 0 in training.")
        .range(0, 0.99);
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.spatial_dims != 2) refuse("spatial_dims must be 2");
    require_odd_kernels(p.kernel_size);
    blocks_ = 0;
    const Scope m = s / "model";
    const Value x = level(m, image, 1);
    return {conv(m / "3.conv", x, p.out_channels, {.kernel = p.kernel_c, .stride = p.stride_conv})};
  }

 private:
  // One level and all below it; unpooled, except the first.
  Value level(const Scope& s, const Value& x, int i) const {
    const auto top = i == 1;
    const Value in = top ? x : max_pool(x, {.kernel = p.pool, .stride = p.stride_pool});
    if (i == 5) return unpooled(block(s, in), x);
    const Value down = block(s / 0, in);
    const Value y = block(s / 2, concat({down, level(s / "1.submodule", down, i + 1)}));
    return top ? y : unpooled(y, x);
  }
  // ConvConcatDenseBlock.
  Value block(const Scope& s, const Value& x) const {
    const Value first = layer(s / "layers0", x, p.kernel_size);
    const Value second = layer(s / "layers1", concat({x, first}), p.kernel_size);
    Value y = layer(s / "layers2", concat({first, second, x}), 1);
    // MONAI applies its one layer twice.
    if (p.se_block && *p.se_block == "CSE") y = excited(excited(y));
    return p.drop_out > 0 ? dropout_channels(y, p.drop_out, ++blocks_) : y;
  }
  Value layer(const Scope& s, const Value& x, const PerAxis& kernel) const {
    const Value y = prelu(s / "0.A", norm(s / "0.N", x, norm_of("instance")));
    return conv(s / 1, y, p.num_filters, {.kernel = kernel});
  }
  // ChannelSELayer, the same of all blocks.
  Value excited(const Value& x) const {
    const Scope fc = x.builder->scope() / "model.0.se_layer.fc";
    const Value y = linear(fc / 0, global_avg_pool(x), x.channels / 2);
    return product(x, sigmoid(linear(fc / 2, relu(y), x.channels)));
  }
  // y's numbers to where x had the maxima of its windows, zeros elsewhere.
  Value unpooled(const Value& y, const Value& x) const {
    const auto function = [kernel = p.pool, stride = p.stride_pool](In t) {
      const at::Tensor maxima =
          std::get<1>(at::max_pool2d_with_indices(t[1].detach(), kernel, stride));
      return at::max_unpool2d(t[0].contiguous(), maxima.contiguous(), t[1].sizes().slice(2));
    };
    return y.op("max_unpool", function, {.with = {x}});
  }

  std::string unfit(at::IntArrayRef extents) const override {
    for (const std::int64_t n : extents)
      for (std::int64_t level = 0, now = n; level < 4; ++level, now /= p.stride_pool)
        if (now < p.pool || (now - p.pool) % p.stride_pool != 0)
          return "has four pools, which must cover images without a rest; got " + c10::str(extents);
    return "";
  }

  mutable std::uint64_t blocks_ = 0;  // while it is built
};

const RegisterNetwork<Quicknat> registered;

}  // namespace
}  // namespace sluice
