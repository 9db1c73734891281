// generate_distance_map: MONAI's GenerateDistanceMapd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct GenerateDistanceMap final : Node {
  struct Params {
    std::string mask_key = "mask", border_key = "border", dist_map_key = "dist_map";
  } p;

  static Spec spec() {
    Spec s("generate_distance_map",
           "What watershed floods: instances as basins, the smoothed border between them.");
    return add_mask_and_border<Params>(s)
        .param("dist_map_key", &Params::dist_map_key, "Field for the heights, float32 [1, X, Y].")
        .gives("@dist_map_key", Form::image)
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    set_of_border(out, p, p.dist_map_key, [&](const at::Tensor& mask, const at::Tensor& border) {
      return nuclei_depth(mask, border);
    });
    f.emit(std::move(out));
  }
};

const Register<GenerateDistanceMap> registered;

}  // namespace
}  // namespace sluice
