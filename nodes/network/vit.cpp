// vit, vit_auto_enc: MONAI's ViT and ViTAutoEnc (monai.networks.nets 1.6.1) with their parameter
// names and defaults; what every layer answers is a further output. Dosovitskiy et al. 2021.
//
//   vit           x ─ patches ─ layers ─ norm ─▶ tokens [N, T, C], or the first one's classes
//   vit_auto_enc  x ─ patches ─ layers ─ norm ─ up by sqrt(patch) ─ up by sqrt(patch) ─▶ image
#include <ATen/ATen.h>

#include <cmath>

#include "nodes/network/transformer_params.h"

namespace sluice {
namespace {

template <class Params>
Spec vit_spec(Spec s) {
  declared(s, "in_channels").required = true;
  add_transformer_params<Params>(s)
      .param("proj_type", &Params::proj_type, "How a patch becomes a token.")
      .choices({"conv", "perceptron"});
  add_attention_params<Params>(s);
  return s.gives("logits", Form::any).dtype("float32");
}

Values with_hidden(const Value& first, const Vit& v) {
  Values all{first};
  all.insert(all.end(), v.hidden.begin(), v.hidden.end());
  return all;
}

template <class T>
struct OfImageSize : ImageNetwork<T> {
  std::string unfit(at::IntArrayRef extents) const override {
    return static_cast<const T&>(*this).p.unfit(extents);
  }
};

struct VitNet final : OfImageSize<VitNet> {
  struct Params : VitParams {
    std::string pos_embed_type = "learnable", post_activation = "Tanh";
    bool classification = false;
  } p;

  static Spec spec() {
    return vit_spec<Params>(
               image_net<Params>("vit", "Vision transformer (MONAI's ViT).", false,
                                 "Classes, with classification (MONAI's num_classes)."))
        .param("pos_embed_type", &Params::pos_embed_type,
               "What a patch's place adds: learnable, the same from zero (none), a constant.")
        .choices({"none", "learnable", "sincos"})
        .param("classification", &Params::classification,
               "The output is classes [N, classes], read from a token of their own.")
        .param("post_activation", &Params::post_activation, "Tanh: after the classes.");
  }

  Values build(const Scope& s, const Value& image) const {
    VitOptions o = p.options(image.axes);
    o.pos_embed_type = p.pos_embed_type;
    o.class_token = p.classification;
    const Vit v = vit(s, image, o);
    if (!p.classification) return with_hidden(v.out, v);
    const Value x = v.out.op("first_token", [](In t) { return t[0].select(1, 0); },
                             {.axes = 0, .tokens = false});
    const Scope head = s / "classification_head";
    if (p.post_activation != "Tanh") return with_hidden(linear(head, x, p.out_channels), v);
    const Value y = linear(head / 0, x, p.out_channels);
    return with_hidden(y.op("tanh", [](In t) { return at::tanh(t[0]); }), v);
  }
};

struct VitAutoEnc final : OfImageSize<VitAutoEnc> {
  struct Params : VitParams {
    std::int64_t deconv_chns = 16;
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    return vit_spec<Params>(
               image_net<Params>("vit_auto_enc",
                                 "Vision transformer that gives images (MONAI's ViTAutoEnc).",
                                 false, "Channels of the output."))
        .param("deconv_chns", &Params::deconv_chns, "Channels between the two upsamplings.")
        .at_least(1);
  }

  Values build(const Scope& s, const Value& image) const {
    const VitOptions o = p.options(image.axes);
    require_patches_divide(o);
    std::vector<std::int64_t> up;
    for (const std::int64_t n : o.patch) {
      up.push_back(std::llround(std::sqrt(static_cast<double>(n))));
      if (up.back() * up.back() != n) refuse("patch_size must be squares");
    }
    const ConvOptions twice{.kernel = up, .stride = up, .padding = 0, .transposed = true};
    const Vit v = vit(s, image, o);
    const Value y = conv(s / "conv3d_transpose", to_image(v.out, o.grid()), p.deconv_chns, twice);
    return with_hidden(conv(s / "conv3d_transpose_1", y, p.out_channels, twice), v);
  }
};

const RegisterNetwork<VitNet> vit_net;
const RegisterNetwork<VitAutoEnc> vit_auto_enc;

}  // namespace
}  // namespace sluice
