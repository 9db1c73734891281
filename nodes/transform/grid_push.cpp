// grid_push: MONAI's grid_push, the adjoint of grid_pull.
#include "nodes/transform/grid_sampling.h"

namespace sluice {
namespace {

struct GridPush final : GridAddNode {
  static Spec spec() {
    Spec s("grid_push",
           "Adds each value to the voxels about its point of a grid: the adjoint of grid_pull, the "
           "same bits in every run. Gradients: image, grid.");
    return add_grid_shape<Params>(add_grid_params<Params>(s));
  }

 private:
  at::Tensor of(const at::Tensor& image, const at::Tensor& grid) const override {
    if (image.sizes().slice(2) != grid.sizes().slice(1, grid.dim() - 2))
      throw DataError("field \"" + p.image_key + "\" has extents " +
                      list_text(image.sizes().slice(2)) + ", \"" + p.grid_key + "\" " +
                      list_text(grid.sizes().slice(1, grid.dim() - 2)) +
                      "; each value needs its point");
    return sluice::grid_push(image, grid, shape(grid), rule());
  }
};

const Register<GridPush> registered;

}  // namespace
}  // namespace sluice
