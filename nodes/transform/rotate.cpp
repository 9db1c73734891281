// rotate: MONAI's Rotated.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct Rotate final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<double> angle;
    bool keep_size = true;
    std::vector<std::string> mode{"bilinear", "nearest"};
    std::vector<std::string> padding_mode{"border"};
    std::vector<bool> align_corners{false};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rotate", "Turns all keys about their centre by given angles.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to turn, each [C, X, Y, Z] or [C, X, Y].")
        .param("angle", &Params::angle,
               "Radians about x, y and z; one for images of two axes, or for all three.")
        .required()
        .length(1, 3)
        .param("keep_size", &Params::keep_size, "Otherwise the result holds all of the picture.")
        .param("mode", &Params::mode, "Interpolation; one, or one a key.")
        .choices({"bilinear", "nearest"})
        .per("keys")
        .param("padding_mode", &Params::padding_mode, "Outside the image; one, or one a key.")
        .choices({"zeros", "border", "reflection"})
        .per("keys")
        .param("align_corners", &Params::align_corners,
               "Reflection turns at the voxels' centres, not at their faces; one, or one a key.")
        .per("keys")
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
                       std::vector<double> angles(axes == 2 ? 1 : 3);
                       for (std::size_t d = 0; d < angles.size(); ++d)
                         angles[d] = per_key(p.angle, d);
                       const Sampling how{parse_interpolation(per_key(p.mode, i)),
                                          parse_padding(per_key(p.padding_mode, i)),
                                          flag(p.align_corners, i)};
                       // values: the angles.
                       const Turned t = turned(shape, axes, angles, p.keep_size);
                       record(field, resampled(t.to_source, t.shape, how), "rotate", angles);
                     });
    finish(f, std::move(out));
  }
};

const Register<Rotate> registered;

}  // namespace
}  // namespace sluice
