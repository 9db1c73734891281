// rand_zoom: MONAI's RandZoomd. One draw for all keys.
#include "nodes/transform/zooming.h"

namespace sluice {
namespace {

struct RandZoom final : FusedNode {
  struct Params : ZoomParams {
    double prob = 0.1;
    std::vector<double> min_zoom{0.9}, max_zoom{1.1};
  } p;

  static Spec spec() {
    Spec s("rand_zoom", "Magnifies all keys about their centre by randomly drawn factors.");
    add_image_keys<Params>(s, "zoom")
        .param("prob", &Params::prob, "Probability of a zoom.")
        .range(0, 1)
        .param("min_zoom", &Params::min_zoom,
               "Smallest factors: one for all axes, one an axis, or of two the first for X and Y.")
        .above(0)
        .length(1, 3)
        .param("max_zoom", &Params::max_zoom, "Largest factors, as many; one draw each.")
        .above(0)
        .length_of("min_zoom")
        .random();
    return add_zoom_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    std::vector<double> drawn;
    for (std::size_t i = 0; i < p.min_zoom.size(); ++i)
      drawn.push_back(random.uniform(p.min_zoom[i], per_key(p.max_zoom, i)));
    Sample out = f.in();
    zoom(out, p, "rand_zoom", [&](std::int64_t axes) {
      Vec3 factors{drawn.front(), drawn.front(), drawn.front()};
      const bool shared = drawn.size() == 2 && axes == 3;  // X and Y share the first
      if (shared) factors[2] = drawn[1];
      if (!shared) require_one_an_axis(drawn.size(), "min_zoom", axes);
      for (std::size_t d = 0; d < drawn.size() && !shared; ++d) factors[d] = drawn[d];
      return factors;
    });
    finish(f, std::move(out));
  }
};

const Register<RandZoom> registered;

}  // namespace
}  // namespace sluice
