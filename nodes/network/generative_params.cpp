#include "nodes/network/generative_params.h"

namespace sluice {
namespace {

std::vector<std::int64_t> by_level(const char* name, const std::vector<std::int64_t>& given,
                                   std::size_t levels) {
  if (given.size() == 1) return std::vector<std::int64_t>(levels, given[0]);
  if (given.size() == levels) return given;
  throw Error(Exit::usage, std::string(name) + " has one number or " + std::to_string(levels) +
                               ", found " + std::to_string(given.size()));
}

}  // namespace

DiffusionOptions DiffusionParams::options() const {
  for (const std::int64_t c : channels)
    if (c % norm_num_groups != 0)
      throw Error(Exit::usage, "channels must be multiples of norm_num_groups, " +
                                   std::to_string(norm_num_groups) + ", found " +
                                   std::to_string(c));
  if (with_conditioning != cross_attention_dim.has_value())
    throw Error(Exit::usage, "with_conditioning and cross_attention_dim go together");
  DiffusionOptions o;
  o.num_res_blocks = by_level("num_res_blocks", num_res_blocks, channels.size());
  o.channels = channels;
  o.num_head_channels = by_level("num_head_channels", num_head_channels, channels.size());
  o.attention_levels = attention_levels;
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
}

Conditions DiffusionParams::conditions(const Values& inputs, std::size_t first) const {
  Conditions c{.timesteps = inputs.at(first++)};
  if (with_conditioning) c.context = inputs.at(first++);
  if (num_class_embeds) c.class_labels = inputs.at(first++);
  return c;
}

}  // namespace sluice
