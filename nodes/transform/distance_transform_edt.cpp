// distance_transform_edt: MONAI's DistanceTransformEDTd.
#include <ATen/Functions.h>

#include "kernels/image/distance.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct DistanceTransformEdt final : EachKey<DistanceTransformEdt> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    std::optional<std::vector<double>> sampling;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("distance_transform_edt",
                                 "How far each voxel that is not 0 is from the nearest that is.",
                                 "Fields [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("sampling", &Params::sampling, "A voxel's size, one or one an axis; null: 1.")
        .takes("@keys", Form::image, 2, 3)
        .per_axis("@keys", "sampling")
        .changes("@keys")
        .dtype("float32");
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const std::vector<double> spacing = one_an_axis(p.sampling.value_or(std::vector<double>{1}),
                                                    field.tensor.dim() - 1, "sampling");
    std::vector<at::Tensor> out;
    for (const at::Tensor& channel : field.tensor.unbind(0))
      out.push_back(kernels::distance_to(at::eq(channel, 0), spacing));
    field.tensor = at::stack(out);
  }
};

const Register<DistanceTransformEdt> registered;

}  // namespace
}  // namespace sluice
