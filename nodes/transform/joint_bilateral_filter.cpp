// joint_bilateral_filter: a bilateral filter whose colours are another image's.
#include "nodes/transform/bilateral.h"

namespace sluice {
namespace {

struct JointBilateralFilter final : BilateralNode<true, false> {
  static Spec spec() {
    Spec s("joint_bilateral_filter",
           "Smooths an image where another one, the guide, has like colours. Gradients: image, "
           "guide.");
    return add_bilateral_params<Params>(s, true);
  }
};

const Register<JointBilateralFilter> registered;

}  // namespace
}  // namespace sluice
