// trainable_joint_bilateral_filter: MONAI's TrainableJointBilateralFilter.
#include "nodes/transform/bilateral.h"

namespace sluice {
namespace {

struct TrainableJointBilateralFilter final : BilateralNode<true, true> {
  static Spec spec() {
    Spec s("trainable_joint_bilateral_filter",
           "Smooths an image of one channel where a guide of one channel has like colours. Fields "
           "of the sigmas' names take these' place. Gradients: image, guide, spatial_sigma, "
           "color_sigma.");
    return add_bilateral_params<Params>(s, true);
  }
};

const Register<TrainableJointBilateralFilter> registered;

}  // namespace
}  // namespace sluice
