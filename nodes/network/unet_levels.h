// Parameters of networks shaped like a U-Net, a level of channels between two strides, by MONAI's
// names.
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

struct UNetLevels : ImageNet {
  std::vector<std::int64_t> channels;
  std::vector<std::vector<std::int64_t>> strides;
  std::vector<std::int64_t> kernel_size{3}, up_kernel_size{3};
  double dropout = 0;

  void check() const {
    require_length("strides", strides.size(), "channels", channels.size(), -1);
    for (const auto& kernel : {kernel_size, up_kernel_size}) require_odd_kernels(kernel);
  }
};

template <class P>
Spec& add_unet_levels(Spec& s, int least_channels) {
  return s.param("channels", &P::channels, "Channels of every level, top first; two or more.")
      .at_least(least_channels)
      .length(2)
      .required()
      .param("strides", &P::strides,
             "Stride between levels, one fewer than channels; each a number or one a dimension.")
      .at_least(1)
      .length_of("channels", -1)
      .required()
      .param("kernel_size", &P::kernel_size, "Odd; a number or one a dimension.")
      .at_least(1)
      .param("up_kernel_size", &P::up_kernel_size, "The same for the upward path.")
      .at_least(1)
      .param("dropout", &P::dropout, dropout_doc)
      .range(0, 0.99)
      .extents_multiple_of("strides");
}

}  // namespace sluice
