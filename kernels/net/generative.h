// Blocks of MONAI's generative networks (monai.networks 1.6.1), under their names: attention over
// voxels, SPADE, and the parts of the diffusion U-Net. Rombach et al. 2022; Park et al. 2019.
#pragma once

#include "kernels/net/blocks.h"

namespace sluice {

// softmax(Q K' / sqrt(channels of a head)) V, by heads, which divide the channels.
struct AttendOptions {
  std::int64_t heads = 1;
  double dropout = 0;
  bool in_float32 = false;  // the product of Q and K, whatever the network computes in
};
Value attend(const Value& q, const Value& k, const Value& v, const AttendOptions& o = {});

// SpatialAttentionBlock: NAME.norm, NAME.attn.to_q ....
struct SpatialAttentionOptions {
  NormOptions norm;
  std::int64_t head_channels = 0;  // 0: one head
  bool include_fc = true, use_combined_linear = false;
};
Value spatial_attention(const Scope& s, const Value& x, const SpatialAttentionOptions& o);

// SPADE: a norm whose scale and shift convolutions read from a map of labels.
struct SpadeOptions {
  Value seg;
  std::int64_t hidden = 64;
  std::int64_t kernel_size = 3;
};
Value spade(const Scope& s, const Value& x, const NormOptions& norm, const SpadeOptions& o);

// ---- the diffusion U-Net ------------------------------------------------------------------------

struct DiffusionOptions {
  std::vector<std::int64_t> num_res_blocks, channels, num_head_channels;  // by level
  std::vector<bool> attention_levels;
  NormOptions norm;
  bool resblock_updown = false, with_conditioning = false;
  std::int64_t transformer_num_layers = 1;
  bool upcast_attention = false, include_fc = true, use_combined_linear = false;
  double dropout_cattn = 0;
  std::optional<std::int64_t> num_class_embeds;
};
// What goes with the image.
struct Conditions {
  Value timesteps;                                       // [N]
  std::optional<Value> context = {}, class_labels = {};  // tokens; [N]
  std::optional<SpadeOptions> spade = {};                // of the way up
  // Numbers [N, K] that embeddings of their own put beside the timesteps': {"spacing_layer", ...}.
  std::vector<std::pair<std::string, Value>> further = {};
};
// NAME.time_embed, NAME.class_embedding, those of `further`: [N, 4 channels[0] (1 + further)],
// what residual blocks add to their channels.
Value embedded_times(const Scope& s, const Conditions& c, const DiffusionOptions& o);
// From the first convolution's output to each skip, NAME.down_blocks; the last is the lowest.
Values diffusion_down(const Scope& s, const Value& x, const Value& times, const Conditions& c,
                      const DiffusionOptions& o);
Value diffusion_middle(const Scope& s, const Value& x, const Value& times, const Conditions& c,
                       const DiffusionOptions& o);
Value diffusion_up(const Scope& s, const Value& x, Values skips, const Value& times,
                   const Conditions& c, const DiffusionOptions& o);

}  // namespace sluice
