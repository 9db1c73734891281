// zoom: MONAI's Zoomd. Resizes by a factor and then, if wanted, crops or pads to the old size.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct Zoom final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<double> zoom;
    std::vector<std::string> mode{"area"};
    std::vector<std::string> padding_mode{"edge"};
    std::vector<bool> align_corners{false};
    bool keep_size = true;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("zoom", "Magnifies all keys about their centre by given factors.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to zoom, each [C, X, Y, Z] or [C, X, Y].")
        .param("zoom", &Params::zoom, "Factors, one or one an axis; above 1 the picture grows.")
        .required()
        .above(0)
        .length(1, 3)
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
        .fuses(Fuses::resamples)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys")
        .unless("keep_size", true);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       Vec3 factors;
                       for (std::size_t d = 0; d < 3; ++d) factors[d] = per_key(p.zoom, d);
                       const Zooming how{parse_resizing(per_key(p.mode, i)),
                                         parse_filling(per_key(p.padding_mode, i)),
                                         flag(p.align_corners, i), p.keep_size};
                       // values: the factors.
                       record_zoom(field, shape, axes, factors, how, "zoom",
                                   {factors.begin(), factors.begin() + axes});
                     });
    finish(f, std::move(out));
  }
};

const Register<Zoom> registered;

}  // namespace
}  // namespace sluice
