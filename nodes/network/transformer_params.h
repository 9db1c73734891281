// Parameters that networks of patches and tokens share, by MONAI's names.
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

// Those of networks that are transformers from the image on.
struct VitParams : ImageNet {
  std::vector<std::int64_t> img_size, patch_size;
  std::int64_t hidden_size = 768, mlp_dim = 3072, num_layers = 12, num_heads = 12;
  std::string proj_type = "conv";
  double dropout_rate = 0;
  bool qkv_bias = false;

  VitOptions options(int axes) const {
    VitOptions o{.img_size = PerAxis(img_size).over(axes), .patch = PerAxis(patch_size).over(axes)};
    o.hidden = hidden_size;
    o.mlp = mlp_dim;
    o.layers = num_layers;
    o.heads = num_heads;
    o.proj_type = proj_type;
    o.qkv_bias = qkv_bias;
    o.dropout = dropout_rate;
    return o;
  }
  // What is wrong with images of such extents; empty: nothing.
  std::string unfit(at::IntArrayRef extents) const {
    return unless_made_for(extents, "img_size",
                           PerAxis(img_size).over(static_cast<int>(extents.size())));
  }
};

inline void require_patches_divide(const VitOptions& o) {
  for (std::size_t a = 0; a < o.patch.size(); ++a)
    require_multiples("img_size", o.img_size[a], o.patch[a], "patch_size");
}

// `P` has img_size, patch_size, hidden_size, mlp_dim, num_layers, num_heads. The cast makes the
// default that of P, not of a base.
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
      .param("mlp_dim", static_cast<std::int64_t P::*>(&P::mlp_dim),
             "Channels within a layer's perceptron.")
      .at_least(1)
      .param("num_layers", &P::num_layers, "Layers of attention and perceptron.")
      .at_least(1)
      .param("num_heads", &P::num_heads, heads_doc)
      .at_least(1);
}

// `P` has dropout_rate, qkv_bias.
template <class P>
Spec& add_attention_params(Spec& s) {
  return s.param("dropout_rate", &P::dropout_rate, "Of tokens and of attention's shares.")
      .range(0, 0.99)
      .param("qkv_bias", &P::qkv_bias, qkv_bias_doc);
}

}  // namespace sluice
