// The parameters that networks of generative models share: those of levels (autoencoder_kl too), of
// SPADE, and of the diffusion_model_unets and controlnets with what follows from them.
#pragma once

#include <array>

#include "kernels/net/generative.h"
#include "nodes/network/built_network.h"

namespace sluice {

// Of networks that are there thrice: MONAI's plain one, that with a map of labels, and MAISI's.
enum class Variant : std::uint8_t { plain, spade, maisi };

// As Params has these members and defaults; `channels_name` says what it calls `channels`: MAISI's
// networks say num_channels.
template <class Params>
Spec& add_generative_levels(Spec& s) {
  using Flag = bool Params::*;
  const std::string channels = Params().channels_name;
  return s
      .param("num_res_blocks", &Params::num_res_blocks,
             "Residual blocks of each level: a number or one a level.")
      .at_least(1)
      .param(channels, &Params::channels, "Of each level, multiples of norm_num_groups.")
      .at_least(1)
      .param("attention_levels", &Params::attention_levels, "Levels with attention.")
      .length_of(channels)
      .param("norm_num_groups", &Params::norm_num_groups, "Groups of the group norms.")
      .at_least(1)
      .param("norm_eps", &Params::norm_eps, "Of the group norms.")
      .above(0)
      .param("include_fc", Flag{&Params::include_fc}, "Attention ends with a linear layer.")
      .param("use_combined_linear", &Params::use_combined_linear,
             "One linear layer for queries, keys and values.");
}

// Of parameters with these members.
inline void require_generative_levels(const auto& p) {
  require_multiples(p.channels_name, p.channels, p.norm_num_groups, "norm_num_groups");
  require_one_or("num_res_blocks", p.num_res_blocks.size(), p.channels.size());
  require_length("attention_levels", p.attention_levels.size(), p.channels_name, p.channels.size());
}

template <class Params>
Spec& add_spade_params(Spec& s) {
  return s.param("label_nc", &Params::label_nc, "Channels of seg, a class each.")
      .at_least(1)
      .required()
      .param("spade_intermediate_channels", &Params::spade_intermediate_channels,
             "Channels between seg and the norms' scales.")
      .at_least(1);
}

struct DiffusionParams : ImageNet {
  std::string channels_name = "channels";
  std::vector<std::int64_t> num_res_blocks{2, 2, 2, 2}, channels{32, 64, 64, 64};
  std::vector<bool> attention_levels{false, false, true, true};
  std::int64_t norm_num_groups = 32, transformer_num_layers = 1;
  double norm_eps = 1e-6;
  bool resblock_updown = false, with_conditioning = false, upcast_attention = false;
  std::vector<std::int64_t> num_head_channels{8};
  std::optional<std::int64_t> cross_attention_dim, num_class_embeds;
  bool include_fc = true, use_combined_linear = false;
  bool include_top_region_index_input = false, include_bottom_region_index_input = false,
       include_spacing_input = false;

  DiffusionOptions options() const;  // an Error where the parameters contradict each other
  // timesteps, then context, class_labels and MAISI's numbers where there are such.
  void add_inputs(std::vector<NetInput>& inputs) const;
  // The inputs from `first` on, as add_inputs() adds them.
  Conditions conditions(const Values& inputs, std::size_t first) const;
  // The number that extents must be multiples of.
  std::int64_t step() const { return std::int64_t{1} << (channels.size() - 1); }

 protected:
  void be_maisi() { channels_name = "num_channels", include_fc = false; }

 private:
  // MAISI's numbers of a sample: whether they are read, their input, and the layers that embed
  // them.
  struct Numbers {
    bool read;
    const char *key, *layer;
    std::int64_t count;
  };
  std::array<Numbers, 3> numbers() const;
};

template <class Params>
Spec diffusion_spec(Spec s) {
  return add_generative_levels<Params>(s)
      .param("resblock_updown", &Params::resblock_updown,
             "Residual blocks halve and double, and not convolutions.")
      .param("num_head_channels", &Params::num_head_channels,
             "Channels of a head of attention: a number or one a level, 0 where there is none.")
      .at_least(0)
      .param("with_conditioning", &Params::with_conditioning,
             "Attention reads a further input, tokens \"context\" [N, T, cross_attention_dim].")
      .param("transformer_num_layers", &Params::transformer_num_layers,
             "Layers of the transformers, with_conditioning.")
      .at_least(1)
      .param("cross_attention_dim", &Params::cross_attention_dim, "Channels of the context.")
      .at_least(1)
      .param("num_class_embeds", &Params::num_class_embeds,
             "Classes of a further input, numbers \"class_labels\" [N]; null: no such input.")
      .at_least(1)
      .param("upcast_attention", &Params::upcast_attention,
             "Shares of attention with a context are computed in float32.");
}

}  // namespace sluice
