// grid_grad: MONAI's grid_grad. The image's derivatives at the coordinates of a grid.
#include "nodes/transform/grid_sampling.h"

namespace sluice {
namespace {

struct GridGrad final : GridReadNode {
  static Spec spec() {
    Spec s("grid_grad",
           "The image's derivatives along its axes at each point of a grid, as a last axis. "
           "Gradients: image, grid.");
    return add_grid_read_params(s);
  }

 private:
  at::Tensor of(const at::Tensor& image, const at::Tensor& grid) const override {
    return sluice::grid_grad(coefficients(image), grid, rule());
  }
};

const Register<GridGrad> registered;

}  // namespace
}  // namespace sluice
