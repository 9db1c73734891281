// Parameters that networks of patches and tokens share, by MONAI's names.
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

// `P` has img_size, patch_size, hidden_size, mlp_dim, num_layers, num_heads.
template <class P>
Spec& add_transformer_params(Spec& s) {
  return s.param("img_size", &P::img_size, "Extents of the images; one number: of all axes.")
      .at_least(1)
      .required()
      .param("patch_size", &P::patch_size,
             "Extents of a patch, which divide the images'; one number: of all axes.")
      .at_least(1)
      .required()
      .param("hidden_size", &P::hidden_size, "Channels of a token.")
      .at_least(1)
      .param("mlp_dim", &P::mlp_dim, "Channels within a layer's perceptron.")
      .at_least(1)
      .param("num_layers", &P::num_layers, "Layers of attention and perceptron.")
      .at_least(1)
      .param("num_heads", &P::num_heads, "Heads of attention; they divide hidden_size.")
      .at_least(1);
}

// `P` has dropout_rate, qkv_bias.
template <class P>
Spec& add_attention_params(Spec& s) {
  return s.param("dropout_rate", &P::dropout_rate, "Of tokens and of attention's shares.")
      .range(0, 0.99)
      .param("qkv_bias", &P::qkv_bias, "Queries, keys and values have a bias.");
}

}  // namespace sluice
