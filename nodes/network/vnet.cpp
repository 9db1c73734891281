// vnet: MONAI's VNet (monai.networks.nets.VNet 1.6.1) with its parameter names and defaults.
// Milletari, Navab, Ahmadi 2016.
//
//   x ─ 16 ──────────────────────── 32 ─ out_tr ─▶ logits    a transition: stride 2, convolutions
//       └ 32 ──────────────── 64 ─┘                          of 5, and the sum with what they read
//          └ 64 ──────── 128 ─┘
//             └ 128 ── 256 ─┘
//                └ 256 ─┘
#include <ATen/ATen.h>

#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct VNet final : ImageNetwork<VNet> {
  struct Params : ImageNet {
    Json act = Json::array({"elu", {{"inplace", true}}});
    std::optional<double> dropout_prob_down = 0.5;
    Json dropout_prob_up = Json::array({0.5, 0.5});
    std::int64_t dropout_dim = 3;
    bool bias = false;
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    return image_net<Params>("vnet", "V-Net, 2-D or 3-D (MONAI's VNet).", false)
        .param("act", &Params::act, monai_name_doc)
        .choices(act_names())
        .param("dropout_prob_down", &Params::dropout_prob_down,
               "Dropout of the two lowest levels on the way down; null: none.")
        .range(0, 0.99)
        .param("dropout_prob_up", &Params::dropout_prob_up,
               "Of the two lowest levels on the way up, and of their skips; null: none.")
        .param("dropout_dim", &Params::dropout_dim, "1: numbers become 0; 2, 3: whole channels.")
        .range(1, 3)
        .param("bias", &Params::bias, "Convolutions on the way down have a bias.");
  }

  Values build(const Scope& s, const Value& image) const {
    if (16 % image.channels != 0)
      refuse("in_channels must divide 16, found " + std::to_string(image.channels));
    if (!p.dropout_prob_up.is_array() || p.dropout_prob_up.size() != 2)
      refuse("dropout_prob_up has two entries, found " + p.dropout_prob_up.dump());
    dropouts_ = 0;
    const Value repeated = concat(Values(static_cast<std::size_t>(16 / image.channels), image));
    const Scope in = s / "in_tr";
    Values x{
        activated(in / "act_function", block(in / "conv_block", image, 16, p.bias) + repeated)};
    const std::int64_t down[] = {1, 2, 3, 2}, up[] = {2, 2, 1, 1};
    for (std::size_t i = 0; i < 4; ++i)
      x.push_back(lower(s / ("down_tr" + std::to_string(32 << i)), x[i], down[i], i > 1));
    Value y = x[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t out = 256 >> i;
      y = upper(s / ("up_tr" + std::to_string(out)), y, x[3 - i], out, up[i], i < 2);
    }
    const Scope last = s / "out_tr";
    y = block(last / "conv_block", y, p.out_channels, p.bias);
    return {
        conv(last / "conv2", activated(last / "act_function1", y), p.out_channels, {.kernel = 1})};
  }

 private:
  Value activated(const Scope& s, const Value& x) const {
    Act a = act_of(p.act);
    a.channels = p.act.is_string();  // so MONAI's "prelu" has a slope for each
    return act(s, x, a);
  }
  static Value block(const Scope& s, const Value& x, std::int64_t out, bool bias) {
    return convolution(s, x, out, {.kernel_size = 5, .adn = {.norm = NormOptions{}}, .bias = bias});
  }
  Value convolved(const Scope& s, const Value& x, std::int64_t count, bool bias) const {
    Value y = x;
    for (std::int64_t i = 0; i < count; ++i)
      y = activated(s / i / "act_function", block(s / i / "conv_block", y, y.channels, bias));
    return y;
  }
  std::optional<double> up_probability(std::size_t i) const {
    const Json& given = p.dropout_prob_up[i];
    if (given.is_null()) return {};
    if (!given.is_number() || given < 0 || given >= 1)
      refuse("a dropout is a number from 0 to below 1, or null, found " + given.dump());
    return given.get<double>();
  }
  Value dropped(const Value& x, const std::optional<double>& probability) const {
    if (!probability || *probability == 0) return x;
    return p.dropout_dim == 1 ? dropout(x, *probability)
                              : dropout_channels(x, *probability, ++dropouts_);
  }
  Value lower(const Scope& s, const Value& x, std::int64_t count, bool drops) const {
    Value y = conv(s / "down_conv", x, 2 * x.channels,
                   {.kernel = 2, .stride = 2, .padding = 0, .bias = p.bias, .normed = true});
    const Value down = activated(s / "act_function1", norm(s / "bn1", y));
    y = drops ? dropped(down, p.dropout_prob_down) : down;
    return activated(s / "act_function2", convolved(s / "ops", y, count, p.bias) + down);
  }
  Value upper(const Scope& s, const Value& x, const Value& skip, std::int64_t out,
              std::int64_t count, bool drops) const {
    Value y = drops ? dropped(x, up_probability(0)) : x;
    const Value beside = dropped(skip, drops ? up_probability(1) : 0.5);
    ConvOptions up{.kernel = 2, .stride = 2, .padding = 0};
    up.transposed = up.normed = true;
    y = activated(s / "act_function1", norm(s / "bn1", conv(s / "up_conv", y, out / 2, up)));
    const Value both = concat({y, beside});
    return activated(s / "act_function2", convolved(s / "ops", both, count, false) + both);
  }

  std::string unfit(at::IntArrayRef extents) const override {
    return unless_multiples(extents, 16);
  }

  mutable std::uint64_t dropouts_ = 0;  // while it is built
};

const RegisterNetwork<VNet> registered;

}  // namespace
}  // namespace sluice
