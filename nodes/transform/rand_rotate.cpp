// rand_rotate: MONAI's RandRotated. One draw for all keys.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandRotate final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<double> range_x{0}, range_y{0}, range_z{0};
    double prob = 0.1;
    bool keep_size = true;
    std::vector<std::string> mode{"bilinear", "nearest"};
    std::vector<std::string> padding_mode{"border"};
    std::vector<bool> align_corners{false};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_rotate", "Turns all keys about their centre by randomly drawn angles.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to turn, each [C, X, Y, Z] or [C, X, Y].")
        .param("range_x", &Params::range_x,
               "Radians about x (in the plane of a 2-D image): r for -r..r, or [low, high].")
        .length(1, 2)
        .param("range_y", &Params::range_y, "Radians about y, the same forms; 3-D only.")
        .length(1, 2)
        .param("range_z", &Params::range_z, "Radians about z, the same forms; 3-D only.")
        .length(1, 2)
        .param("prob", &Params::prob, "Probability of a rotation.")
        .range(0, 1)
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
    for (const auto* range : {&p.range_x, &p.range_y, &p.range_z})
      drawn.push_back(draw(random, *range));
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       std::vector<double> angles = drawn;
                       if (axes == 2) angles.resize(1);
                       const Sampling how{parse_interpolation(per_key(p.mode, i)),
                                          parse_padding(per_key(p.padding_mode, i)),
                                          flag(p.align_corners, i)};
                       // values: the angles.
                       const Turned t = turned(shape, axes, angles, p.keep_size);
                       record(field, resampled(t.to_source, t.shape, how), "rand_rotate", angles);
                     });
    finish(f, std::move(out));
  }
};

const Register<RandRotate> registered;

}  // namespace
}  // namespace sluice
