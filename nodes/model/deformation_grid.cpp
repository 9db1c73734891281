// deformation_grid: what a displacement field does to a grid of lines, for `preview`.
#include "nodes/model/displacements.h"

namespace sluice {
namespace {

struct DeformationGrid final : Node {
  struct Params {
    std::string ddf_key = "ddf", output_key = "grid";
    std::int64_t spacing = 4, axis = 2;
  } p;

  static Spec spec() {
    return Spec("deformation_grid",
                "A grid of lines, moved as the displacements move an image: a picture of them. "
                "Where lines cross each other the field folds.")
        .in("sample")
        .out("sample")
        .param("ddf_key", &Params::ddf_key,
               "Field with displacements in voxels, [N, axes, ...] or [axes, ...].")
        .param("output_key", &Params::output_key, "Field for the picture, one channel, 0 to 1.")
        .param("spacing", &Params::spacing, "Voxels from line to line.")
        .at_least(2)
        .param("axis", &Params::axis,
               "Of volumes the axis that slices are to be drawn across: it has no lines.")
        .range(0, 2)
        .takes("@ddf_key", Form::any)
        .gives("@output_key", Form::any)
        .like("@ddf_key")
        .channels("1")
        .lane(LaneKind::step)
        .any_device();
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    Sample out = f.in();
    Field field = out.at(p.ddf_key);
    const Displaced d(f.in(), p.ddf_key);
    field.tensor = d.as_given(sluice::warp(lines(d.field), d.field, kernels::Outside::border));
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  // [N, 1, ...]
  at::Tensor lines(const at::Tensor& field) const {
    std::vector<std::int64_t> shape = field.sizes().vec();
    shape[1] = 1;
    at::Tensor grid = at::zeros(shape, field.options().dtype(at::kFloat));
    for (std::int64_t a = 2; a < field.dim(); ++a)
      if (field.dim() == 4 || a - 2 != p.axis)
        grid.slice(a, p.spacing / 2, std::nullopt, p.spacing).fill_(1);
    return grid;
  }
};

const Register<DeformationGrid> registered;

}  // namespace
}  // namespace sluice
