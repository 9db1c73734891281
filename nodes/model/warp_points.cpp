// warp_points: landmarks of the fixed image, where a displacement field leads them.
#include "nodes/model/displacements.h"

namespace sluice {
namespace {

struct WarpPoints final : Node {
  struct Params {
    std::string key = "points", ddf_key = "ddf", output_key = "warped_points";
  } p;

  static Spec spec() {
    return Spec("warp_points",
                "Moves points of the fixed image's grid by the displacements there, into the "
                "moving image's. With gradients for the displacements.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "Field with points in voxels, [N, points, axes].")
        .param("ddf_key", &Params::ddf_key, "Field with displacements, [N, axes, ...].")
        .param("output_key", &Params::output_key, "Field for the moved points.")
        .takes("@key", Form::any, 0)
        .takes("@ddf_key", Form::any)
        .gives("@output_key", Form::any)
        .lane(LaneKind::step)
        .differentiable()
        .any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.key);
    const Displaced d(f.in(), p.ddf_key);
    const at::Tensor points = d.single ? field.tensor.unsqueeze(0) : field.tensor;
    if (points.dim() != 3 || points.size(0) != d.field.size(0) || points.size(2) != d.field.size(1))
      throw DataError("\"" + p.key + "\" " + c10::str(field.tensor.sizes()) +
                      " is no list of points for the displacements " + c10::str(d.field.sizes()));
    field.tensor = d.as_given(sluice::warp_points(points, d.field));
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }
};

const Register<WarpPoints> registered;

}  // namespace
}  // namespace sluice
