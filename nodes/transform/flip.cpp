// flip: MONAI's Flipd.
#include "nodes/transform/cropping.h"
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct Flip final : FusedNode {
  struct Params : CropParams {
    std::optional<std::vector<std::int64_t>> spatial_axis;
  } p;

  static Spec spec() {
    Spec s("flip", "Flips along spatial axes.");
    return add_flip_axis<Params>(add_crop_params(s, "flip")).rearranging();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    sluice::flip(out, p, "flip");
    finish(f, std::move(out));
  }
};

const Register<Flip> registered;

}  // namespace
}  // namespace sluice
