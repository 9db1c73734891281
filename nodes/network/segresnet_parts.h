// What segresnet and segresnet_vae are made of (monai.networks.nets.SegResNet 1.6.1, with its
// parameter names and defaults; Myronenko 2018).
#pragma once

#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {

struct SegResParams : ImageNet {
  std::int64_t init_filters = 8;
  std::optional<double> dropout_prob;
  std::int64_t num_groups = 8;
  std::optional<Json> norm;
  Json act = Json::array({"RELU", {{"inplace", true}}});
  bool use_conv_final = true;
  std::vector<std::int64_t> blocks_down{1, 2, 2, 4}, blocks_up{1, 1, 1};
  std::string upsample_mode = "nontrainable";
};

template <class Params>
Spec seg_res_spec(std::string name, std::string doc) {
  return image_net<Params>(std::move(name), std::move(doc), false)
      .param("init_filters", &Params::init_filters, "Channels of the first level, doubled by each.")
      .at_least(1)
      .param("dropout_prob", &Params::dropout_prob,
             "Probability that a channel of the first convolution becomes 0 in training.")
      .range(0, 0.99)
      .param("num_groups", &Params::num_groups, "Groups of the group norms.")
      .at_least(1)
      .param("norm", &Params::norm, "As in MONAI: [name, {arguments}]; null: groups of num_groups.")
      .choices(norm_names())
      .param("act", &Params::act, monai_name_doc)
      .choices(act_names())
      .param("use_conv_final", &Params::use_conv_final, "Norm, activation and 1x1 at the end.")
      .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
      .at_least(1)
      .length(1)
      .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
      .at_least(1)
      .length_of("blocks_down", -1)
      .param("upsample_mode", &Params::upsample_mode, "How extents are doubled.")
      .choices(upsample_modes());
}

struct SegRes {
  const SegResParams& p;

  void check() const {
    if (!p.norm) require_multiples("init_filters", p.init_filters, p.num_groups, "num_groups");
    require_length("blocks_up", p.blocks_up.size(), "blocks_down", p.blocks_down.size(), -1);
  }
  // The activation outside of blocks, one for the whole network.
  static Scope act_mod(const Scope& s) { return {s.builder, "act_mod"}; }
  Value activated(const Scope& s, const Value& x) const {
    const Act a = act_of(p.act);
    return a.kind == Act::Kind::relu ? relu(x) : act(s, x, a);
  }
  Value norm_act(const Scope& s, const Scope& act, const Value& x) const {
    NormOptions o{.kind = Norm::group, .groups = p.num_groups};
    if (p.norm) o = norm_of(*p.norm);
    return activated(act, norm(s, x, o));
  }
  static Value conv3(const Scope& s, const Value& x, std::int64_t out, std::int64_t stride = 1) {
    return conv(s, x, out, {.kernel = 3, .stride = stride, .bias = false});
  }
  Value block(const Scope& s, const Value& x) const {
    const Scope act = s / "act";  // one for both
    const Value y = conv3(s / "conv1.conv", norm_act(s / "norm1", act, x), x.channels);
    return conv3(s / "conv2.conv", norm_act(s / "norm2", act, y), x.channels) + x;
  }
  Value twice(const Scope& s, const Value& x) const {
    if (p.upsample_mode == "nontrainable") return doubled(x);
    UpSampleOptions o;
    o.mode = p.upsample_mode;
    return upsample(s, x, x.channels, o);
  }
  Values encode(const Scope& s, const Value& image) const {
    Value x = conv3(s / "convInit.conv", image, p.init_filters);
    if (p.dropout_prob) x = dropout_channels(x, *p.dropout_prob);
    Values levels;
    for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
      const Scope level = s / "down_layers" / static_cast<std::int64_t>(i);
      if (i > 0) x = conv3(level / "0.conv", x, 2 * x.channels, 2);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b) x = block(level / b, x);
      levels.push_back(x);
    }
    return levels;
  }
  // `skips` are those above x; none: nothing is added.
  Value decode(const Scope& s, const Value& bottom, Values skips) const {
    Value x = bottom;
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i) {
      const Scope sample = s / "up_samples" / static_cast<std::int64_t>(i),
                  level = s / "up_layers" / static_cast<std::int64_t>(i);
      x = conv(sample / "0.conv", x, x.channels / 2, {.kernel = 1, .bias = false});
      x = twice(sample / 1, x);
      if (!skips.empty()) {
        x = x + skips.back();
        skips.pop_back();
      }
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b) x = block(level / b, x);
    }
    return x;
  }
  Value last(const Scope& s, const Value& x, std::int64_t out) const {
    return conv(s / "2.conv", norm_act(s / 0, act_mod(s), x), out, {.kernel = 1});
  }
  Value logits(const Scope& s, Values levels) const {
    const Value bottom = levels.back();
    levels.pop_back();
    const Value x = decode(s, bottom, levels);
    // MONAI has its parameters where it is not used, too.
    const Value y = last(s / "conv_final", x, p.out_channels);
    return p.use_conv_final ? y : x;
  }
  std::string unfit(at::IntArrayRef extents) const {
    return unless_multiples(extents, std::int64_t{1} << (p.blocks_down.size() - 1));
  }
};

}  // namespace sluice
