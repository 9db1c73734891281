// hover_net: MONAI's HoVerNet (monai.networks.nets.HoVerNet 1.6.1) without pretrained weights, with
// its parameter names. Graham et al. 2019.
//
//   x ─ conv 7 ─ four residual blocks, three with / 2 ─ conv 1 ─ doubled ─┬─▶ output 0: nuclei
//        └──── the first three, added on each branch's way up ───────────┼─▶ output 1: distances
//                                                                        └─▶ output 2: types
#include <ATen/ATen.h>

#include "kernels/net/up.h"
#include "nodes/network/picture_net.h"

namespace sluice {
namespace {

// The middle of an image, with the extents of `like`.
Value trimmed(const Value& x, const Value& like) {
  const auto function = [](In t) {
    at::Tensor y = t[0];
    const std::int64_t trim = (y.size(-1) - t[1].size(-1)) / 2;
    for (int a = 2; a < 4; ++a) y = y.narrow(a, trim, y.size(a) - 2 * trim);
    return y;
  };
  return x.op("trim", function, {.with = {like}});
}
// Without the last row and column.
Value shortened(const Value& x) {
  return x.op("shorten", [](In t) {
    return t[0].narrow(2, 0, t[0].size(2) - 1).narrow(3, 0, t[0].size(3) - 1);
  });
}

struct HoverNet final : ImageNetwork<HoverNet> {
  struct Params : PictureNet {
    std::string mode = "FAST";
    std::int64_t np_out_channels = 2, out_classes = 0;
    Json act = Json::array({"relu", {{"inplace", true}}}), norm = "batch";
    bool decoder_padding = false;
    double dropout_prob = 0;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "hover_net",
        "Nuclei of cells in slides (MONAI's HoVerNet). Outputs, by the model node's output_keys: "
        "nucleus_prediction, horizontal_vertical, and type_prediction with out_classes.",
        false);
    leave_out(s, {"spatial_dims", "out_channels"});
    return s
        .param("mode", &Params::mode,
               "FAST: kernels 3 in the branches; ORIGINAL: kernels 5 and no padding at all.")
        .choices({"FAST", "ORIGINAL"})
        .param("np_out_channels", &Params::np_out_channels, "Channels of nucleus_prediction.")
        .at_least(1)
        .param("out_classes", &Params::out_classes,
               "Channels of type_prediction; 0: there is no such branch.")
        .range(0, 128)
        .param("act", &Params::act, "Of the encoder: a name, or [name, {arguments}].")
        .choices(act_names())
        .param("norm", &Params::norm, "The same.")
        .choices(norm_names())
        .param("decoder_padding", &Params::decoder_padding,
               "Branches pad, so that outputs have the image's extents.")
        .param("dropout_prob", &Params::dropout_prob,
               "Of the encoder: probability that a value becomes 0 in training.")
        .range(0, 0.99);
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.out_classes == 1) refuse("out_classes is 0 or more than 1");
    const bool fast = p.mode == "FAST";
    Value x = bare(s / "conv0.conv", image, 64, 7, 1, fast ? 3 : 0);
    x = act(s / "conv0.relu", norm(s / "conv0.bn", x, norm_of(p.norm)), act_of(p.act));
    Values levels;
    constexpr std::int64_t layers[]{3, 4, 6, 3};
    for (int i = 0; i < 4; ++i) {
      x = residual_block(s / "res_blocks" / ("d" + std::to_string(i)), x, layers[i], 64L << i,
                         256L << i);
      if (i < 3) levels.push_back(x);
    }
    x = doubled_linear(bare(s / "bottleneck.conv_bottleneck", x, 1024, 1, 1, 0));
    Values out{branch(s / "nucleus_prediction", x, levels, p.np_out_channels),
               branch(s / "horizontal_vertical", x, levels, 2)};
    if (p.out_classes > 0) out.push_back(branch(s / "type_prediction", x, levels, p.out_classes));
    return out;
  }

  std::string unfit(at::IntArrayRef extents) const override {
    if (p.mode == "ORIGINAL")
      return extents.equals({270, 270}) ? ""
                                        : "takes images of 270 x 270, got " + c10::str(extents);
    if (const std::string why = unless_multiples(extents, 8); !why.empty()) return why;
    if (extents[0] != extents[1]) return "takes squares, got " + c10::str(extents);
    return p.decoder_padding || extents[0] >= 96
               ? ""
               : "takes 96 x 96 or more without decoder_padding, got " + c10::str(extents);
  }

 private:
  static Value bare(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
                    std::int64_t stride, std::int64_t padding, std::int64_t groups = 1) {
    return conv(s, x, out,
                {.kernel = kernel,
                 .stride = stride,
                 .padding = padding,
                 .groups = groups,
                 .bias = false,
                 .init = Init::kaiming()});
  }
  static Value doubled_linear(const Value& x) { return magnified(x, 2, true, true); }

  Value activated(const Scope& norm_at, const Scope& act_at, const Value& x) const {
    return act(act_at, norm(norm_at, x, norm_of(p.norm)), act_of(p.act));
  }
  Value residual_block(const Scope& s, const Value& image, std::int64_t layers,
                       std::int64_t features, std::int64_t out) const {
    const bool first = image.channels == 64;
    Value beside = first ? bare(s / "shortcut", image, out, 1, 1, 0)
                         : shortened(bare(s / "shortcut", image, out, 1, 2, 1));
    Value x = image;
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool halves = i == 0 && !first;
      x = dense_layer(s / "layers" / ("denselayer_" + std::to_string(i)) / "layers", x, features,
                      out, i == 0, halves);
      if (halves) x = shortened(x);
      x = beside = x + beside;
    }
    return activated(s / "bna_block.bn", s / "bna_block.relu", x);
  }
  Value dense_layer(const Scope& s, const Value& image, std::int64_t features, std::int64_t out,
                    bool first, bool halves) const {
    Value x = first ? image : activated(s / "preact/bn", s / "preact/relu", image);
    x = bare(s / "conv1", x, features, 1, 1, 0);
    x = activated(s / "conv1/bn", s / "conv1/relu", x);
    x = bare(s / "conv2", x, features, 3, halves ? 2 : 1, halves ? 2 : 1);
    x = activated(s / "conv2/bn", s / "conv2/relu", x);
    x = bare(s / "conv3", x, out, 1, 1, 0);
    return p.dropout_prob > 0 ? dropout(x, p.dropout_prob) : x;
  }

  // MONAI's branches have batch norms and ReLUs, whatever the encoder has.
  Value branch(const Scope& s, const Value& bottom, const Values& levels, std::int64_t out) const {
    const std::int64_t kernel = p.mode == "FAST" ? 3 : 5;
    Value x = bottom + levels[2];
    for (int i = 0; i < 2; ++i) {
      x = decoder_block(s / "decoder_blocks" / ("decoderblock" + std::to_string(i + 1)), x,
                        i == 0 ? 8 : 4, kernel);
      x = doubled_linear(x);
      // Where nothing is to be trimmed, MONAI adds nothing.
      if (!p.decoder_padding) x = x + trimmed(levels[1 - i], x);
    }
    const Scope last = s / "output_features";
    x = bare(last / "decoderblock3.conva", x, 64, kernel, 1, (kernel - 1) / 2);
    x = relu(norm(last / "decoderblock4.bn", x));
    return conv(last / "decoderblock4.conv", x, out, {.kernel = 1, .init = Init::kaiming()});
  }
  Value decoder_block(const Scope& s, const Value& image, std::int64_t layers,
                      std::int64_t kernel) const {
    const std::int64_t padding = p.decoder_padding ? kernel / 2 : 0;
    Value x = bare(s / "conva", image, image.channels / 4, kernel, 1, padding);
    for (std::int64_t i = 1; i <= layers; ++i) {
      const Scope at = s / ("denselayerdecoder" + std::to_string(i)) / "layers";
      Value y = bare(at / "conv1", relu(norm(at / "preact_bna/bn", x)), 128, 1, 1, 0);
      y = bare(at / "conv2", relu(norm(at / "conv1/norm", y)), 32, kernel, 1, padding, 4);
      x = concat({p.decoder_padding ? x : trimmed(x, y), y});
    }
    return bare(s / "convf", relu(norm(s / "bna_block.bn", x)), x.channels, 1, 1, 0);
  }
};

const RegisterNetwork<HoverNet> registered;

}  // namespace
}  // namespace sluice
