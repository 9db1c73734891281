// torchvision_features: what torchvision's ResNets make of a picture before their last pool, with
// their parameter names: the layer4 that MONAI's PerceptualLoss compares (its last "relu").
//
//   x ─ conv 7 / 2 ─ norm ─ relu ─ max pool 3 / 2 ─ four layers ─▶ features [N, C, X / 32, Y / 32]
#include "kernels/net/resnet.h"
#include "nodes/network/picture_net.h"

namespace sluice {
namespace {

struct TorchVisionFeatures final : ImageNetwork<TorchVisionFeatures> {
  struct Params : PictureNet {
    std::string model_name = "resnet50";
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "torchvision_features",
        "torchvision's ResNets up to their last pool: maps of features, which perceptual_loss "
        "compares. Weights of a whole ResNet are loaded with partial.",
        false);
    declared(s, "spatial_dims").max = 2;
    leave_out(s, {"out_channels"});
    return s.gives("features", Form::any)
        .dtype("float32")
        .param("model_name", &Params::model_name, "Which one.")
        .choices(vision_models());
  }

  Values build(const Scope& s, const Value& image) const {
    return {resnet_features(s, image, vision_model(p.model_name)).back()};
  }
};

const RegisterNetwork<TorchVisionFeatures> registered;

}  // namespace
}  // namespace sluice
