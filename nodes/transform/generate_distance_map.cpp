// generate_distance_map: MONAI's GenerateDistanceMapd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct GenerateDistanceMap final : Node {
  struct Params {
    std::string mask_key = "mask", border_key = "border", dist_map_key = "dist_map";
  } p;

  static Spec spec() {
    return Spec("generate_distance_map",
                "What watershed floods: instances as basins, the smoothed border between them.")
        .in("sample")
        .out("sample")
        .param("mask_key", &Params::mask_key, "The mask, [1, X, Y] of 0 and 1.")
        .param("border_key", &Params::border_key, "generate_instance_border's map.")
        .param("dist_map_key", &Params::dist_map_key, "Field for the heights, float32 [1, X, Y].")
        .takes("@mask_key", Form::image, 2, 2)
        .takes("@border_key", Form::image, 2, 2)
        .gives("@dist_map_key", Form::image)
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor &mask = map_of(out, p.mask_key), &border = map_of(out, p.border_key);
    require_extents(border, p.border_key, mask, p.mask_key);
    const auto meta = out.at(p.mask_key).meta;
    out.set(p.dist_map_key, Field(nuclei_depth(mask, border), meta));
    f.emit(std::move(out));
  }
};

const Register<GenerateDistanceMap> registered;

}  // namespace
}  // namespace sluice
