// vqvae: MONAI's VQVAE (monai.networks.nets.VQVAE 1.6.1), with its parameter names and defaults.
// van den Oord et al. 2017; Tudosiu et al. 2022.
//
//   x ─ convs with strides, residual units ─ quantized ─ the way back ─▶ output 0: reconstruction
//                                               └─▶ output 1: what the code is away from its table
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/net/quantize_step.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;
using Lists = std::vector<Numbers>;

struct VqVae final : ImageNetwork<VqVae> {
  struct Params : ImageNet {
    Numbers channels{96, 96, 192}, num_res_channels{96, 96, 192};
    std::int64_t num_res_layers = 3, num_embeddings = 32, embedding_dim = 64;
    Lists downsample_parameters{{2, 4, 1, 1}, {2, 4, 1, 1}, {2, 4, 1, 1}};
    Lists upsample_parameters{{2, 4, 1, 1, 0}, {2, 4, 1, 1, 0}, {2, 4, 1, 1, 0}};
    double commitment_cost = 0.25, decay = 0.5, epsilon = 1e-5, dropout = 0;
    std::optional<Json> act = Json("RELU"), output_act;
  } p;

  static Spec spec() {
    return image_net<Params>(
               "vqvae",
               "Autoencoder whose code is rows of a table (MONAI's VQVAE). Its second output, by "
               "the model node's output_keys, is the commitment loss of each sample.",
               true, "Channels of the reconstruction.")
        .param("channels", &Params::channels, "Of each level.")
        .at_least(1)
        .length(1)
        .param("num_res_layers", &Params::num_res_layers, "Residual units of a level.")
        .at_least(0)
        .param("num_res_channels", &Params::num_res_channels,
               "Channels within them: a number or one a level.")
        .at_least(1)
        .param("downsample_parameters", &Params::downsample_parameters,
               "Of each level's convolution, or of all: stride, kernel, dilation, padding.")
        .at_least(0)
        .param("upsample_parameters", &Params::upsample_parameters,
               "The same of the way back, and the padding of the output. Dilations are 1.")
        .at_least(0)
        .param("num_embeddings", &Params::num_embeddings, "Rows of the table.")
        .at_least(1)
        .param("embedding_dim", &Params::embedding_dim, "Channels of the code.")
        .at_least(1)
        .param("commitment_cost", &Params::commitment_cost, "Factor of the commitment loss.")
        .at_least(0)
        .param("decay", &Params::decay, "Of the running means that the table follows.")
        .range(0, 1)
        .param("epsilon", &Params::epsilon, "Keeps rows that nothing is assigned to finite.")
        .above(0)
        .param("dropout", &Params::dropout, dropout_doc)
        .range(0, 0.99)
        .param("act", &Params::act, monai_name_or_none_doc)
        .choices(act_names())
        .param("output_act", &Params::output_act, "After the last convolution; null: none.")
        .choices(act_names());
  }

  Values build(const Scope& s, const Value& image) const {
    const Value code = encoded(s / "encoder.blocks", image);
    auto step = std::make_unique<QuantizeStep>();
    const Scope at = s / "quantizer.quantizer";
    const at::Tensor table = at::zeros({p.num_embeddings, p.embedding_dim});
    const std::string drawn_as = (at / "embedding.weight").name;
    step->name = at.name;
    step->embedding = at.buffer("embedding.weight", table, drawn_as);
    step->cluster_size = at.buffer("ema_cluster_size", at::zeros({p.num_embeddings}));
    step->sums = at.buffer("ema_w", table.clone(), drawn_as);
    step->decay = p.decay;
    step->epsilon = p.epsilon;
    const Value quantized = code.builder->append(std::move(step), {code}, {false}, code);
    const auto away = [cost = p.commitment_cost](In t) {
      return cost * (t[1].detach() - t[0]).square().flatten(1).mean(1);
    };
    return {decoded(s / "decoder.blocks", quantized),
            code.op("commitment_loss", away, {.with = {quantized}, .channels = 1, .axes = 0})};
  }

 private:
  // One list for all levels, or one a level; each of `count` numbers: stride, kernel, dilation,
  // padding, and the padding of an output.
  Lists by_level(const std::string& name, const Lists& given, std::size_t count) const {
    Lists all = given;
    const auto is_number = [](const Numbers& n) { return n.size() == 1; };
    if (std::all_of(all.begin(), all.end(), is_number)) {  // numbers, and not lists of them
      Numbers one;
      for (const Numbers& n : all) one.push_back(n[0]);
      all = Lists(p.channels.size(), one);
    }
    require_length(name, all.size(), "channels", p.channels.size());
    for (const Numbers& n : all) {
      const auto wrong = [&](const char* what) {
        refuse(name + what + ", found " + c10::str(IntList(n)));
      };
      if (n.size() != count)
        wrong(count == 4 ? " has lists of 4 numbers" : " has lists of 5 numbers");
      if (*std::min_element(n.begin(), n.begin() + 3) < 1)
        wrong(" has strides, kernels and dilations from 1");
      if (count == 5 && n[4] >= std::max(n[0], n[2]))
        wrong(" has paddings of the output below the stride");
    }
    return all;
  }
  std::int64_t res_channels(std::size_t level) const {
    return each_of("num_res_channels", p.num_res_channels, p.channels.size())[level];
  }
  Adn activated(double dropout) const {
    return {.ordering = "DA", .act = act_or_none(p.act), .dropout = dropout};
  }
  Value units(const Scope& s, std::int64_t& i, Value x, std::size_t level) const {
    for (std::int64_t r = 0; r < p.num_res_layers; ++r) {
      const Scope at = s / i++;
      const Value y =
          convolution(at / "conv1", x, res_channels(level), {.adn = activated(p.dropout)});
      x = relu(x + conv(at / "conv2.conv", y, x.channels));
    }
    return x;
  }
  Value encoded(const Scope& s, Value x) const {
    const Lists how = by_level("downsample_parameters", p.downsample_parameters, 4);
    std::int64_t i = 0;
    for (std::size_t level = 0; level < p.channels.size(); ++level) {
      const Numbers& n = how[level];
      x = convolution(s / i++, x, p.channels[level],
                      {.strides = n[0],
                       .kernel_size = n[1],
                       .adn = activated(level == 0 ? 0 : p.dropout),
                       .padding = n[3],
                       .dilation = n[2]});
      x = units(s, i, x, level);
    }
    return conv(s / i / "conv", x, p.embedding_dim);
  }
  Value decoded(const Scope& s, Value x) const {
    const Lists how = by_level("upsample_parameters", p.upsample_parameters, 5);
    std::int64_t i = 0;
    x = conv(s / i++ / "conv", x, p.channels.back());
    for (std::size_t level = p.channels.size(); level-- > 0;) {
      const Numbers& n = how[p.channels.size() - 1 - level];
      x = units(s, i, x, level);
      x = convolution(s / i++, x, level > 0 ? p.channels[level - 1] : p.out_channels,
                      {.strides = n[0],
                       .kernel_size = n[1],
                       .adn = activated(level > 0 ? p.dropout : 0),
                       .conv_only = level == 0,
                       .is_transposed = true,
                       .padding = n[3],
                       .output_padding = n[4],
                       .dilation = n[2]});
    }
    return p.output_act ? act(s / i, x, act_of(*p.output_act)) : x;
  }
};

const RegisterNetwork<VqVae> registered;

}  // namespace
}  // namespace sluice
