// rand_elastic: MONAI's Rand3DElasticd. A random smooth deformation and a random affine, one of
// each for all keys. How the field is made, and what differs from MONAI's: kernels/elastic.h.
#include "engine/registry.h"
#include "kernels/affine_params.h"
#include "kernels/elastic.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct RandElastic final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<double> sigma_range, magnitude_range;
    std::optional<std::vector<std::int64_t>> spatial_size;
    double prob = 0.1;
    Json rotate_range, shear_range, translate_range, scale_range;
    std::vector<std::string> mode{"bilinear", "nearest"};
    std::vector<std::string> padding_mode{"reflection"};
    bool allow_missing_keys = false;
  } p;
  AffineRanges ranges;

  static Spec spec() {
    return Spec("rand_elastic", "Deforms all keys by one random smooth field and affine.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to deform, each [C, X, Y, Z].")
        .param("sigma_range", &Params::sigma_range,
               "[low, high]: the Gaussian that smooths the offsets, in voxels.")
        .required()
        .above(0)
        .length(2, 2)
        .param(
            "magnitude_range", &Params::magnitude_range,
            "[low, high]: what the smoothed offsets (-1..1 before) are multiplied by, in voxels.")
        .required()
        .length(2, 2)
        .param("spatial_size", &Params::spatial_size,
               "Voxels of the result: one number, or one an axis; 0 or less, or null: the image's.")
        .param("prob", &Params::prob, "Probability of a deformation.")
        .range(0, 1)
        .param("rotate_range", &Params::rotate_range,
               "Radians about each axis: r, [r, ...] (-r..r) or [[low, high], ...].")
        .param("shear_range", &Params::shear_range, "Six shear factors, the same forms.")
        .param("translate_range", &Params::translate_range, "Voxels an axis, the same forms.")
        .param("scale_range", &Params::scale_range, "Added to a scale of 1, the same forms.")
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
        .takes("@keys", Form::image, 3, 3)
        .resizes("@keys", "spatial_size")
        .when("spatial_size");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    for (const auto* r : {&p.sigma_range, &p.magnitude_range})
      if (r->size() != 2 || (*r)[0] > (*r)[1])
        throw Error(Exit::usage, "sigma_range and magnitude_range must be [low, high]");
    if (p.sigma_range[0] <= 0) throw Error(Exit::usage, "sigma_range must be above 0");
    ranges = {parse_ranges(p.rotate_range, "rotate_range"),
              parse_ranges(p.shear_range, "shear_range"),
              parse_ranges(p.translate_range, "translate_range"),
              parse_ranges(p.scale_range, "scale_range")};
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    if (random.chance(p.prob)) {
      const double magnitude = random.uniform(p.magnitude_range[0], p.magnitude_range[1]);
      const double sigma = random.uniform(p.sigma_range[0], p.sigma_range[1]);
      const Affine centred = centred_affine(ranges.draw(random), 3);
      const Random::Stream noise = random.stream();
      std::optional<Displacement> field;  // made for the first key's size
      transform(out, centred, [&](const Shape3& size) -> const Displacement* {
        if (!field)
          field = random_displacement(size, sigma, magnitude, noise.key, noise.counter_high);
        return &*field;
      });
    } else if (p.spatial_size) {
      transform(out, identity_affine, [](const Shape3&) { return nullptr; });
    }
    finish(f, std::move(out));
  }

  template <class Displace>  // displace(output shape) -> const Displacement*, or null for none
  void transform(Sample& out, const Affine& centred, Displace&& displace) const {
    for_each_pending(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const Shape3& shape, std::int64_t, std::size_t i) {
          const Shape3 size = p.spatial_size ? fall_back(*p.spatial_size, shape, 3) : shape;
          const Sampling how{parse_interpolation(per_key(p.mode, i)),
                             parse_padding(per_key(p.padding_mode, i))};
          const Affine m = about_centres(centred, shape, size);
          const Displacement* by = displace(size);
          // A deformed grid has no affine; what is kept is the affine part. values: output ->
          // source.
          record(field, by ? resampled(m, *by, size, how) : resampled(m, size, how), "rand_elastic",
                 {m.begin(), m.end()});
        },
        3);
  }
};

const Register<RandElastic> registered;

}  // namespace
}  // namespace sluice
