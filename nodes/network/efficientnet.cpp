// efficientnet: MONAI's EfficientNetBN (monai.networks.nets.EfficientNetBN 1.6.1) without
// pretrained weights, with its parameter names. Tan, Le 2019.
//
//   x ─ conv 3 / 2 ─ norm, swish ─ blocks ─ conv 1 ─ norm, swish ─ mean ─ dropout ─ linear
//   block: conv 1 ─ depthwise conv ─ squeeze and excitation ─ conv 1 (+ x), norms between them
#include "kernels/net/efficientnet.h"
#include "nodes/network/picture_net.h"

namespace sluice {
namespace {

struct EfficientNet final : ImageNetwork<EfficientNet> {
  struct Params : PictureNet {
    std::string model_name;
    Json norm = Json::array({"batch", {{"eps", 1e-3}, {"momentum", 0.01}}});
    Params() { out_channels = 1000; }
  } p;

  static constexpr int least_axes = 1;
  static Spec spec() {
    return class_net<Params>("efficientnet",
                             "EfficientNet for classes of whole images (MONAI's EfficientNetBN; "
                             "num_classes is out_channels).",
                             false)
        .param("model_name", &Params::model_name, "Which one: width, depth, dropout.")
        .choices(efficientnet_names())
        .required()
        .param("norm", &Params::norm, monai_name_doc)
        .choices(norm_names());
  }

  Values build(const Scope& s, const Value& image) const {
    return {efficientnet(s, image, p.model_name, p.out_channels, norm_of(p.norm)).logits};
  }
};

const RegisterNetwork<EfficientNet> registered;

}  // namespace
}  // namespace sluice
