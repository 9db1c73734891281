// prob_nms: MONAI's ProbNMSd, and its pathology's PathologyProbNMS.
#include "engine/run/registry.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/tissue.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct ProbNms final : Node {
  struct Params {
    std::string key = "prob_map", output_key = "probs", coords_key = "coords";
    std::vector<double> sigma{0};
    double prob_threshold = 0.5;
    std::vector<std::int64_t> box_size{48};
    std::optional<std::int64_t> resolution_level;
  } p;

  static Spec spec() {
    return Spec("prob_nms",
                "Detections in a map of probabilities: takes the highest, clears a box around it, "
                "and again while one is above the threshold.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "The map, [1, X, Y(, Z)].")
        .param("output_key", &Params::output_key, "Field for the probabilities, [points] float64.")
        .param("coords_key", &Params::coords_key,
               "Field for the places, [points, axes] int64, in voxels of the map.")
        .param("sigma", &Params::sigma,
               "Smooths the map first: a Gaussian's standard deviation in voxels, one or one an "
               "axis; 0: not at all.")
        .at_least(0)
        .param("prob_threshold", &Params::prob_threshold, "Not above it: no detection.")
        .at_least(0)
        .param("box_size", &Params::box_size, "Voxels that are cleared, one number or one an axis.")
        .at_least(1)
        .length(1, 3)
        .param("resolution_level", &Params::resolution_level,
               "The level of a slide that the map belongs to: places are in pixels of its level 0, "
               "(place + 0.5) * 2^level, cut to whole numbers. null: no slide.")
        .range(0, 30)
        .takes("@key", Form::image, 2, 3)
        .per_axis("@key", "sigma")
        .per_axis("@key", "box_size")
        .gives("@output_key", Form::any)
        .dtype("float64")
        .gives("@coords_key", Form::any)
        .dtype("int64");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& field = image_field(out, p.key);
    if (field.tensor.size(0) != 1)
      throw DataError("field \"" + p.key + "\" has " + std::to_string(field.tensor.size(0)) +
                      " channels; a map has one");
    const std::int64_t axes = field.tensor.dim() - 1;
    at::Tensor map = field.tensor;
    if (std::any_of(p.sigma.begin(), p.sigma.end(), [](double s) { return s > 0; }))
      map = from_volume(gaussian(to_volume(map), one_an_axis(p.sigma, axes, "sigma")), axes);
    if (!map.isfinite().all().item<bool>())
      throw DataError("field \"" + p.key + "\" has probabilities that are not finite");
    Detections found =
        prob_nms(map[0], p.prob_threshold, one_an_axis(p.box_size, axes, "box_size"));
    if (p.resolution_level)
      found.coords =
          ((found.coords.to(at::kDouble) + 0.5) * std::pow(2.0, *p.resolution_level)).to(at::kLong);
    const auto meta = field.meta;
    out.set(p.output_key, Field(found.probs, meta));
    out.set(p.coords_key, Field(found.coords, meta));
    f.emit(std::move(out));
  }
};

const Register<ProbNms> registered;

}  // namespace
}  // namespace sluice
