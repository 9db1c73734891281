// rand_elastic: MONAI's Rand3DElasticd. A random smooth deformation and a random affine, one of
// each for all keys. How the field is made, and what differs from MONAI's:
// kernels/augment/elastic.h.
#include "kernels/augment/elastic.h"
#include "nodes/transform/rand_affine_params.h"

namespace sluice {
namespace {

struct RandElastic final : FusedNode {
  struct Params : RandAffineParams {
    std::vector<double> sigma_range, magnitude_range;
  } p;
  AffineRanges ranges;

  static Spec spec() {
    Spec s("rand_elastic", "Deforms all keys by one random smooth field and affine.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to deform, each [C, X, Y, Z].")
        .param("sigma_range", &Params::sigma_range,
               "[low, high]: the Gaussian that smooths the offsets, in voxels.")
        .required()
        .above(0)
        .length(2, 2)
        .rising()
        .param(
            "magnitude_range", &Params::magnitude_range,
            "[low, high]: what the smoothed offsets (-1..1 before) are multiplied by, in voxels.")
        .required()
        .length(2, 2)
        .rising();
    return add_rand_affine_params(s, 3, 3);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    ranges = p.ranges();
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
          const Shape3 size = p.size(shape, 3);
          const Sampling how = p.sampling(i);
          const Affine m = about_centres(centred, shape, size);
          const Displacement* by = displace(size);
          // A deformed grid has no affine; what is kept is the affine part. values: output ->
          // source.
          record(field, by ? resampled(m, *by, size, how) : resampled(m, size, how), "rand_elastic",
                 with_sampling({m.begin(), m.end()}, how));
        },
        3);
  }
};

const Register<RandElastic> registered;

}  // namespace
}  // namespace sluice
