// zoom: MONAI's Zoomd. Resizes by a factor and then, if wanted, crops or pads to the old size.
#include "nodes/transform/zooming.h"

namespace sluice {
namespace {

struct Zoom final : FusedNode {
  struct Params : ZoomParams {
    std::vector<double> zoom;
  } p;

  static Spec spec() {
    Spec s("zoom", "Magnifies all keys about their centre by given factors.");
    add_image_keys<Params>(s, "zoom", 1)
        .param("zoom", &Params::zoom, "Factors, one or one an axis; above 1 the picture grows.")
        .required()
        .above(0)
        .length(1, 3);
    return add_zoom_params(s).per_axis("@keys", "zoom");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    zoom(out, p, "zoom", [this](std::int64_t axes) {
      Vec3 factors{1, 1, 1};
      std::ranges::copy(one_an_axis(p.zoom, axes, "zoom"), factors.begin());
      return factors;
    });
    finish(f, std::move(out));
  }
};

const Register<Zoom> registered;

}  // namespace
}  // namespace sluice
