// trainable_bilateral_filter: MONAI's TrainableBilateralFilter.
#include "nodes/transform/bilateral.h"

namespace sluice {
namespace {

struct TrainableBilateralFilter final : BilateralNode<false, true> {
  static Spec spec() {
    Spec s("trainable_bilateral_filter",
           "Smooths an image of one channel where its colours are alike. Fields of the sigmas' "
           "names take these' place. Gradients: image, spatial_sigma, color_sigma.");
    return add_bilateral_params<Params>(s, false);
  }
};

const Register<TrainableBilateralFilter> registered;

}  // namespace
}  // namespace sluice
