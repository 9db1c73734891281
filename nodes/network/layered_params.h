// Parameters of networks that are rows of convolutions or residual units, by MONAI's names.
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

using Numbers = std::vector<std::int64_t>;

struct LayeredParams : ImageNet {
  Numbers channels, strides, kernel_size{3};
  std::int64_t num_res_units = 2;
  std::optional<Json> act = Json("PRELU"), norm = Json("INSTANCE");
  std::optional<double> dropout;
  bool bias = true;
  std::string init = "default";

  void check() const {
    require_length("strides", strides.size(), "channels", channels.size());
    require_odd_kernels(kernel_size);
  }
  // What an image of this shape, channels first, has left of its extents after the last layer.
  Numbers extents_after_strides(const Numbers& shape) const {
    Numbers left{shape.begin() + 1, shape.end()};
    for (auto& n : left)
      for (const std::int64_t stride : strides) n = (n - 1) / stride + 1;
    return left;
  }
  Adn adn() const {
    return {.norm = norm_or_none(norm), .act = act_or_none(act), .dropout = dropout.value_or(0)};
  }
};

// `plain`: what there is without residual units. The casts make defaults P's, not the base's.
template <class P>
Spec& add_layered_params(Spec& s, const std::string& plain = "plain convolutions") {
  return s.param("channels", &P::channels, "Of each layer.")
      .at_least(1)
      .length(1)
      .required()
      .param("strides", &P::strides, "Of each layer.")
      .at_least(1)
      .length_of("channels")
      .required()
      .param("kernel_size", &P::kernel_size, "Odd; a number or one an axis.")
      .at_least(1)
      .param("num_res_units", static_cast<std::int64_t P::*>(&P::num_res_units),
             "Convolutions in a residual unit; 0: " + plain + ".")
      .at_least(0)
      .param("act", &P::act, monai_name_or_none_doc)
      .choices(act_names())
      .param("norm", &P::norm, "The same.")
      .choices(norm_names())
      .param("dropout", static_cast<std::optional<double> P::*>(&P::dropout),
             "Probability that a value becomes 0 in training; null: none.")
      .range(0, 0.99)
      .param("bias", &P::bias, conv_bias_doc)
      .param("init", static_cast<std::string P::*>(&P::init),
             "How weights begin: default: as PyTorch's layers; normal: those of convolutions and "
             "linear layers normal with the deviation 0.02, their biases 0, batch norm's around 1 "
             "(MONAI's normal_init).")
      .choices({"default", "normal"});
}

}  // namespace sluice
