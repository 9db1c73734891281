// rand_affine: MONAI's RandAffined. One random affine about the centre for all keys.
#include "engine/registry.h"
#include "kernels/affine_params.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandAffine final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::optional<std::vector<std::int64_t>> spatial_size;
    double prob = 0.1;
    Json rotate_range, shear_range, translate_range, scale_range;
    std::vector<std::string> mode{"bilinear", "nearest"};
    std::vector<std::string> padding_mode{"reflection"};
    bool allow_missing_keys = false;
  } p;
  AffineRanges ranges;

  static Spec spec() {
    return Spec("rand_affine", "Rotates, shears, shifts and scales all keys by one random affine.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to resample, each [C, X, Y, Z] or [C, X, Y].")
        .param("spatial_size", &Params::spatial_size,
               "Voxels of the result: one number, or one an axis; 0 or less, or null: the image's.")
        .param("prob", &Params::prob, "Probability of a transform.")
        .range(0, 1)
        .param("rotate_range", &Params::rotate_range,
               "Radians about each axis: r, [r, ...] (-r..r) or [[low, high], ...].")
        .param("shear_range", &Params::shear_range, "Shear factors, six in 3-D, the same forms.")
        .param("translate_range", &Params::translate_range, "Voxels an axis, the same forms.")
        .param("scale_range", &Params::scale_range,
               "Added to a scale of 1 an axis, the same forms; above 1 shrinks the picture.")
        .param("mode", &Params::mode, "Interpolation; one, or one a key.")
        .choices({"bilinear", "nearest"})
        .per("keys")
        .param("padding_mode", &Params::padding_mode, "Outside the image; one, or one a key.")
        .choices({"zeros", "border", "reflection"})
        .per("keys")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .random()
        .fuses(Fuses::resamples)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys", "spatial_size")
        .when("spatial_size");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    ranges = {parse_ranges(p.rotate_range, "rotate_range"),
              parse_ranges(p.shear_range, "shear_range"),
              parse_ranges(p.translate_range, "translate_range"),
              parse_ranges(p.scale_range, "scale_range")};
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    const bool doing = random.chance(p.prob);
    const AffineParams drawn = doing ? ranges.draw(random) : AffineParams{};
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       const Shape3 size =
                           p.spatial_size ? fall_back(*p.spatial_size, shape, axes) : shape;
                       if (!doing && size == shape) return;
                       const Sampling how{parse_interpolation(per_key(p.mode, i)),
                                          parse_padding(per_key(p.padding_mode, i))};
                       const Affine m = about_centres(centred_affine(drawn, axes), shape, size);
                       // values: output -> source voxels, then interpolation and padding as their
                       // enums' numbers.
                       std::vector<double> values(m.begin(), m.end());
                       values.insert(values.end(), {double(how.mode), double(how.padding)});
                       record(field, resampled(m, size, how), "rand_affine", std::move(values));
                     });
    finish(f, std::move(out));
  }
};

const Register<RandAffine> registered;

}  // namespace
}  // namespace sluice
