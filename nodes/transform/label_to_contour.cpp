// label_to_contour: MONAI's LabelToContourd.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct LabelToContour final : EachKey<LabelToContour> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    std::string kernel_type = "Laplace";
  } p;

  static Spec spec() {
    return each_key_spec<Params>(
               "label_to_contour",
               "1 at the voxels of a mask that have a neighbour outside of it, corners included.",
               "Masks of 0 and 1, each [C, X, Y, Z] or [C, X, Y]; their type stays.")
        .param("kernel_type", &Params::kernel_type, "How edges are found.")
        .choices({"Laplace"})
        .takes("@keys", Form::image, 2, 3);
  }

  // The sum over the 3^d - 1 neighbours, 0 outside, taken from (3^d - 1) times the voxel.
  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const at::Tensor x = field.tensor.to(at::kFloat);
    at::Tensor sum = x;  // over 3^d voxels, axis by axis
    double voxels = 1;
    for (std::int64_t d = 1; d < x.dim(); ++d, voxels *= 3) {
      const at::Tensor line = sum;
      const std::int64_t n = line.size(d) - 1;
      sum = line.clone();
      sum.narrow(d, 0, n).add_(line.narrow(d, 1, n));
      sum.narrow(d, 1, n).add_(line.narrow(d, 0, n));
    }
    field.tensor = (voxels * x - sum).clamp_(0, 1).to(field.tensor.scalar_type());
  }
};

const Register<LabelToContour> registered;

}  // namespace
}  // namespace sluice
