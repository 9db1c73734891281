// grid_pull: MONAI's grid_pull. The image at the coordinates of a grid.
#include "nodes/transform/grid_sampling.h"

namespace sluice {
namespace {

struct GridPull final : GridReadNode {
  static Spec spec() {
    Spec s("grid_pull", "The image at each point of a grid, by B-splines. Gradients: image, grid.");
    return add_grid_read_params(s);
  }

 private:
  at::Tensor of(const at::Tensor& image, const at::Tensor& grid) const override {
    return sluice::grid_pull(coefficients(image), grid, rule());
  }
};

const Register<GridPull> registered;

}  // namespace
}  // namespace sluice
