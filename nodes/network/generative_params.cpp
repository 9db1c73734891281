#include "nodes/network/generative_params.h"

namespace sluice {

DiffusionOptions DiffusionParams::options() const {
  require_generative_levels(*this);
  if (with_conditioning != cross_attention_dim.has_value())
    throw Error(Exit::usage, "with_conditioning and cross_attention_dim go together");
  DiffusionOptions o;
  o.num_res_blocks = each_of("num_res_blocks", num_res_blocks, channels.size());
  o.channels = channels;
  o.num_head_channels = each_of("num_head_channels", num_head_channels, channels.size());
  o.attention_levels = attention_levels;
  for (std::size_t level = 0; level < channels.size(); ++level)
    if (o.num_head_channels[level] < 1 && (attention_levels[level] || level + 1 == channels.size()))
      throw Error(Exit::usage, "num_head_channels: level " + std::to_string(level) +
                                   (attention_levels[level] ? " has attention"
                                                            : ", the last, is the middle's too") +
                                   ", whose heads need channels");
  o.norm = {.kind = Norm::group, .eps = norm_eps, .groups = norm_num_groups};
  o.resblock_updown = resblock_updown;
  o.with_conditioning = with_conditioning;
  o.transformer_num_layers = transformer_num_layers;
  o.upcast_attention = upcast_attention;
  o.include_fc = include_fc;
  o.use_combined_linear = use_combined_linear;
  o.num_class_embeds = num_class_embeds;
  return o;
}

void DiffusionParams::add_inputs(std::vector<NetInput>& inputs) const {
  inputs.push_back(NetInput::number("timesteps"));
  if (with_conditioning)
    inputs.push_back({NetInput::Kind::tokens, "context", cross_attention_dim.value_or(0)});
  if (num_class_embeds) inputs.push_back(NetInput::number("class_labels"));
  for (const Numbers& n : numbers())
    if (n.read) inputs.push_back({NetInput::Kind::vector, n.key, n.count});
}

std::array<DiffusionParams::Numbers, 3> DiffusionParams::numbers() const {
  return {{{include_top_region_index_input, "top_region_index_tensor", "top_region_index_layer", 4},
           {include_bottom_region_index_input, "bottom_region_index_tensor",
            "bottom_region_index_layer", 4},
           {include_spacing_input, "spacing_tensor", "spacing_layer", 3}}};
}

Conditions DiffusionParams::conditions(const Values& inputs, std::size_t first) const {
  Conditions c{.timesteps = inputs.at(first++)};
  if (with_conditioning) c.context = inputs.at(first++);
  if (num_class_embeds) c.class_labels = inputs.at(first++);
  for (const Numbers& n : numbers())
    if (n.read) c.further.emplace_back(n.layer, inputs.at(first++));
  return c;
}

}  // namespace sluice
