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
    const std::int64_t axes = field.tensor.dim() - 1;
    const at::Tensor x = field.tensor.to(at::kFloat).unsqueeze(1);
    at::Tensor kernel = at::full(std::vector<std::int64_t>(axes, 3), -1.0f);
    const std::int64_t neighbours = kernel.numel() - 1;
    kernel.view(-1)[neighbours / 2] = static_cast<double>(neighbours);
    kernel = kernel.unsqueeze(0).unsqueeze(0);
    const at::Tensor y =
        axes == 2 ? at::conv2d(x, kernel, {}, 1, 1) : at::conv3d(x, kernel, {}, 1, 1);
    field.tensor = y.squeeze(1).clamp(0, 1).to(field.tensor.scalar_type());
  }
};

const Register<LabelToContour> registered;

}  // namespace
}  // namespace sluice
