// grid_count: MONAI's grid_count. How much each voxel gets of a push of ones.
#include "nodes/transform/grid_sampling.h"

namespace sluice {
namespace {

struct GridCount final : GridAddNode {
  static Spec spec() {
    Spec s("grid_count",
           "The weights that grid_push adds to each voxel, as one channel. Gradients: grid.");
    return add_grid_shape<Params>(add_grid_params<Params>(s, false).param(
        "image_key", &Params::image_key, "Field for what comes out."));
  }

 private:
  bool takes_image() const override { return false; }
  at::Tensor of(const at::Tensor&, const at::Tensor& grid) const override {
    return sluice::grid_count(grid, shape(grid), rule());
  }
};

const Register<GridCount> registered;

}  // namespace
}  // namespace sluice
