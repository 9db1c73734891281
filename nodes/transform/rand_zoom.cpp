// rand_zoom: MONAI's RandZoomd. One draw for all keys.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandZoom final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    std::vector<double> min_zoom{0.9}, max_zoom{1.1};
    std::vector<std::string> mode{"area"};
    std::vector<std::string> padding_mode{"edge"};
    std::vector<bool> align_corners{false};
    bool keep_size = true;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_zoom", "Magnifies all keys about their centre by randomly drawn factors.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to zoom, each [C, X, Y, Z] or [C, X, Y].")
        .param("prob", &Params::prob, "Probability of a zoom.")
        .range(0, 1)
        .param("min_zoom", &Params::min_zoom,
               "Smallest factors: one for all axes, one an axis, or of two the first for X and Y.")
        .above(0)
        .length(1, 3)
        .param("max_zoom", &Params::max_zoom, "Largest factors, as many; one draw each.")
        .above(0)
        .length_of("min_zoom")
        .param("mode", &Params::mode,
               "How it is resized, \"nearest\" for labels; one, or one a key.")
        .choices(resizing_names)
        .per("keys")
        .param("padding_mode", &Params::padding_mode,
               "What is put around a picture that has shrunk; one, or one a key.")
        .choices(filling_names)
        .per("keys")
        .param("align_corners", &Params::align_corners,
               "Linear and cubic modes: the outer voxels' centres stay; one, or one a key.")
        .per("keys")
        .param("keep_size", &Params::keep_size, "Crop or pad to the size it had.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .fuses(Fuses::resamples)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys")
        .unless("keep_size", true);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    std::vector<double> drawn;
    for (std::size_t i = 0; i < p.min_zoom.size(); ++i)
      drawn.push_back(random.uniform(p.min_zoom[i], per_key(p.max_zoom, i)));
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       Vec3 factors{drawn.front(), drawn.front(), drawn.front()};
                       // Two factors for a volume: X and Y share the first.
                       const bool shared = drawn.size() == 2 && axes == 3;
                       if (shared) factors[2] = drawn[1];
                       for (std::size_t d = 0; d < drawn.size() && !shared; ++d)
                         factors[d] = drawn[d];
                       const Zooming how{parse_resizing(per_key(p.mode, i)),
                                         parse_filling(per_key(p.padding_mode, i)),
                                         flag(p.align_corners, i), p.keep_size};
                       // values: the factors.
                       record_zoom(field, shape, axes, factors, how, "rand_zoom",
                                   {factors.begin(), factors.begin() + axes});
                     });
    finish(f, std::move(out));
  }
};

const Register<RandZoom> registered;

}  // namespace
}  // namespace sluice
