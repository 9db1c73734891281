// What segresnet_ds, segresnet_ds2 and vista3d are made of (monai.networks.nets.SegResNetDS 1.6.1,
// with its parameter names; Myronenko 2018): the way down, and ways up from it.
//
//   x ─ conv_init ─ blocks ─────────────────────────────── + ─ blocks ─ head ─▶ logits
//                     └─ stride 2 ─ blocks ──── + ─ blocks ─ up ─┘   └ ... head ─▶ deep supervision
//                                     └─ ... ─ up ─┘
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

struct SegResDsParams : ImageNet {
  std::int64_t init_filters = 32;
  Json act = "relu", norm = "batch";
  std::vector<std::int64_t> blocks_down{1, 2, 2, 4};
  std::optional<std::vector<std::int64_t>> blocks_up;
  std::int64_t dsdepth = 1;
  std::string upsample_mode = "deconv";
  std::optional<std::vector<double>> resolution;
};

struct SegResDs {
  const SegResDsParams& p;

  // The output of each level, the finest first: `s`.conv_init, `s`.layers.
  Values way_down(const Scope& s, const Value& image) const;
  // Of the levels that have an output, the finest first: `s` is MONAI's up_layers.
  Values way_up(const Scope& s, const Values& skips) const;
  // What extents do not fit, for BuiltNetwork::unfit().
  std::string unfit(at::IntArrayRef extents) const;
};

}  // namespace sluice
