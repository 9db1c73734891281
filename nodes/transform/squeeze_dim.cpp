// squeeze_dim: MONAI's SqueezeDimd. MONAI drops a spatial axis from the world too; here the plane
// stays where it lies in three dimensions.
#include "kernels/image/plane.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct SqueezeDim final : EachKey<SqueezeDim> {
  struct Params : KeyParams {
    std::optional<std::int64_t> dim = 0;
  } p;

  static Spec spec() {
    return each_key_spec("squeeze_dim", "Lets an axis of one element go.", "Fields to change.")
        .param("dim", &Params::dim,
               "The axis, 0 for the channels; negative: from the last; null: all axes of one.")
        .any_device()
        .takes("@keys", Form::any)
        .gives("@keys", Form::any);
  }

  void change(Field& field, std::size_t i) const {
    at::Tensor& t = field.tensor;
    if (!p.dim) {
      t = t.squeeze();
      return;
    }
    const std::int64_t axis = axis_of(*p.dim, t, p.keys[i]);
    if (t.size(axis) != 1)
      throw shape_error(p.keys[i], t,
                        ": axis " + std::to_string(*p.dim) + " has more than one element");
    if (axis == 0 || t.dim() > 4) {
      t = t.squeeze(axis);
      return;
    }
    record(field, t.squeeze(axis), plane_affine(field.geometry().affine, axis - 1, 0),
           "squeeze_dim", {static_cast<double>(axis)});
  }
};

const Register<SqueezeDim> registered;

}  // namespace
}  // namespace sluice
