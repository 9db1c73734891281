// rand_zoom: MONAI's RandZoomd. One draw for all keys.
#include "nodes/transform/zooming.h"

namespace sluice {
namespace {

struct RandZoom final : FusedNode {
  using Params = RandZoomParams;
  Params p;

  static Spec spec() {
    Spec s("rand_zoom", "Magnifies all keys about their centre by randomly drawn factors.");
    add_image_keys<Params>(s, "zoom", 1);
    add_rand_zoom_params<Params>(s);
    return add_zoom_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return as_it_is(f);
    const std::vector<double> drawn = drawn_factors(random, p);
    Sample out = f.in();
    zoom(out, p, "rand_zoom", [&](std::int64_t axes) { return factors_of_axes(drawn, axes); });
    finish(f, std::move(out));
  }

 private:
  // Of the type that a zoom gives, so that a batch's members are of one.
  void as_it_is(Firing& f) const {
    Sample out = f.in();
    bool same = true;
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      if (per_key(p.mode, i).starts_with("nearest") || dtype_of(field) == at::kFloat) return;
      become_float(field);
      same = false;
    });
    same ? pass(f) : finish(f, std::move(out));
  }
};

const Register<RandZoom> registered;

}  // namespace
}  // namespace sluice
