// ranzcr_net: a classifier with a segmentation head, as the fourth place of RANZCR CLiP trained it
// (MONAI's research contributions): an EfficientNet's features, whose last gives the classes, and
// FlexibleUNet's decoder on them, whose masks teach the features where to look.
//
//   x ─ encoder ─ five features ─┬─ max over the image ─ linear ─▶ classes
//                                └─ decoder ─ conv 3 ─▶ masks
#include "kernels/net/efficientnet.h"
#include "kernels/net/up.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct RanzcrNet final : ImageNetwork<RanzcrNet> {
  struct Params : ImageNet {
    std::string encoder = "efficientnet-b8";
    std::int64_t seg_channels = 3;
    std::vector<std::int64_t> decoder_channels{256, 128, 64, 32, 16};
    Params() {
      spatial_dims = 2;
      out_channels = 11;
    }
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "ranzcr_net",
        "Classes of an image and, as a second output, masks of it, on one EfficientNet.", false,
        "Classes: logits [N, classes], the first output.");
    return s.param("encoder", &Params::encoder, "Which EfficientNet.")
        .choices(efficientnet_names())
        .param("seg_channels", &Params::seg_channels,
               "Channels of the second output, logits of masks of the image's extents.")
        .at_least(1)
        .param("decoder_channels", &Params::decoder_channels, "On the way up, bottom first.")
        .at_least(1)
        .length(5, 5)
        .gives("logits", Form::any)
        .dtype("float32");
  }

  Values build(const Scope& s, const Value& image) const {
    const NormOptions norm{.eps = 1e-3, .momentum = 0.1};
    const Values f = efficientnet(s / "encoder", image, p.encoder, 1000, norm).features;
    const Value highest = f.back().op("amax", [](In t) {
      return t[0].amax(at::IntArrayRef{2, 3}, /*keepdim=*/true);
    });
    const Value classes = linear(s / "fc", flatten(highest, 1), p.out_channels);
    UpCatOptions o{.adn = {.norm = NormOptions{}, .act = Act{}}, .bias = false};
    o.up = {.mode = "nontrainable", .pre_conv = false, .interp_mode = "nearest"};
    const Value x = unet_decoder(s / "decoder", f, p.decoder_channels, o);
    return {classes, conv(s / "segmentation_head.0", x, p.seg_channels, {.kernel = 3})};
  }

 private:
  std::string unfit(at::IntArrayRef extents) const override { return unless_multiples(extents, 2); }
};

const RegisterNetwork<RanzcrNet> registered;

}  // namespace
}  // namespace sluice
