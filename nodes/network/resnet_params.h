// How networks that are built on MONAI's ResNet are told what it is.
#pragma once

#include "kernels/net/resnet.h"
#include "nodes/network/built_network.h"

namespace sluice {

struct ResNetBackbone {
  std::vector<std::int64_t> conv1_t_size{7}, conv1_t_stride{1};
  bool no_max_pool = false, bias_downsample = true;
  std::string shortcut_type = "B";
  double widen_factor = 1;
  Json act = "relu", norm = "batch";
};

template <class Params>
Spec& add_resnet_params(Spec& s) {
  using Sizes = std::vector<std::int64_t> Params::*;
  using Flag = bool Params::*;
  using Any = Json Params::*;
  return s
      .param("conv1_t_size", Sizes{&ResNetBackbone::conv1_t_size},
             "Kernel of the first convolution, odd: a number or one an axis.")
      .at_least(1)
      .param("conv1_t_stride", Sizes{&ResNetBackbone::conv1_t_stride},
             "Its stride: a number or one an axis.")
      .at_least(1)
      .param("no_max_pool", Flag{&ResNetBackbone::no_max_pool}, "Leaves the first pool out.")
      .param("shortcut_type", static_cast<std::string Params::*>(&ResNetBackbone::shortcut_type),
             "Beside blocks that change the size: B, a convolution with norm; A, every other "
             "voxel and zeros as further channels, without a gradient.")
      .choices({"A", "B"})
      .param("bias_downsample", Flag{&ResNetBackbone::bias_downsample},
             "The convolutions of B have a bias.")
      .param("act", Any{&ResNetBackbone::act},
             "After the first norm: a name, or [name, {arguments}].")
      .choices(act_names())
      .param("norm", Any{&ResNetBackbone::norm}, "The first norm: a name, or [name, {arguments}].")
      .choices(norm_names())
      .param("widen_factor", static_cast<double Params::*>(&ResNetBackbone::widen_factor),
             "Factor of all channels.")
      .above(0);
}

inline ResNetOptions resnet_options(const ResNetBackbone& p, int layers) {
  require_odd_kernels(p.conv1_t_size, "conv1_t_size");
  return {.kind = resnet_kind(layers),
          .conv1_size = p.conv1_t_size,
          .conv1_stride = p.conv1_t_stride,
          .max_pool = !p.no_max_pool,
          .shortcut_a = p.shortcut_type == "A",
          .bias_downsample = p.bias_downsample,
          .widen_factor = p.widen_factor,
          .act = act_of(p.act),
          .norm = norm_of(p.norm)};
}

}  // namespace sluice
