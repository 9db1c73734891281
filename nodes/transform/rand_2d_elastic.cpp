// rand_2d_elastic: MONAI's Rand2DElasticd. One deformation for all keys.
#include <ATen/Functions.h>

#include "nodes/transform/rand_affine_params.h"

namespace sluice {
namespace {

struct Rand2DElastic final : FusedNode {
  struct Params : RandAffineParams {
    std::vector<double> spacing, magnitude_range;
  } p;
  AffineRanges ranges;

  static Spec spec() {
    Spec s("rand_2d_elastic",
           "Deforms pictures by a grid of control points that are moved at random, and by a random "
           "affine.");
    s.in("sample")
        .out("sample")
        .param("keys", static_cast<std::vector<std::string> Params::*>(&Params::keys),
               "Fields to resample, each [C, X, Y].")
        .param("spacing", &Params::spacing, "Pixels between control points, one or one an axis.")
        .required()
        .length(1, 2)
        .above(0)
        .param("magnitude_range", &Params::magnitude_range,
               "[low, high] of the deviation of their moves, pixels.")
        .required()
        .length(2, 2)
        .rising()
        .at_least(0);
    return add_rand_affine_params(s, 2, 2);
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    ranges = p.ranges();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    const bool doing = random.chance(p.prob);
    const AffineParams drawn = doing ? ranges.draw(random) : AffineParams{};
    const double magnitude = random.uniform(p.magnitude_range[0], p.magnitude_range[1]);
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       if (axes != 2)
                         throw DataError("field \"" + p.keys[i] +
                                         "\" is no picture: rand_elastic "
                                         "deforms volumes");
                       const Shape3 size = p.size(shape, axes);
                       if (!doing && size == shape) return;
                       const Sampling how = p.sampling(i);
                       const Affine m = about_centres(centred_affine(drawn, axes), shape, size);
                       Random same = random;  // the same moves for each key
                       // A deformed grid has no affine; what is kept is the affine part. values:
                       // output -> source.
                       record(field,
                              doing ? resampled(m, moves(same, magnitude, drawn, size), size, how)
                                    : resampled(m, size, how),
                              "rand_2d_elastic", with_sampling({m.begin(), m.end()}, how));
                     });
    finish(f, std::move(out));
  }

 private:
  // How far each pixel's place is from its own, before the affine: the control grid is moved,
  // turned by the affine, made finer and cut to the middle.
  Displacement moves(Random& random, double magnitude, const AffineParams& drawn,
                     const Shape3& size) const {
    std::array<std::int64_t, 2> points{}, fine{};
    std::array<double, 2> step{per_key(p.spacing, 0), per_key(p.spacing, 1)};
    for (std::size_t d = 0; d < 2; ++d) {
      const double half = static_cast<double>(size[d] - 1) / (2 * step[d]);
      points[d] = size[d] % 2 == 0 ? static_cast<std::int64_t>(std::ceil(half + 0.5)) * 2 + 2
                                   : static_cast<std::int64_t>(std::ceil(half)) * 2 + 3;
      fine[d] = static_cast<std::int64_t>(std::floor(static_cast<double>(points[d]) * step[d]));
    }
    const Affine turned = centred_affine(drawn, 2);
    at::Tensor grid = at::empty({2, points[0], points[1], 1}, at::kFloat);
    float* g = grid.mutable_data_ptr<float>();
    const std::int64_t n = points[0] * points[1];
    for (std::int64_t i = 0; i < n; ++i) {
      Vec3 at{};
      const std::int64_t index[2] = {i / points[1], i % points[1]};
      for (std::size_t d = 0; d < 2; ++d)
        at[d] = (static_cast<double>(index[d]) - static_cast<double>(points[d] - 1) / 2) * step[d] +
                magnitude * random.normal();
      at = map_point(turned, at);
      for (std::int64_t d = 0; d < 2; ++d)
        g[d * n + i] = static_cast<float>(at[static_cast<std::size_t>(d)]);
    }
    const Shape3 large{fine[0], fine[1], 1};
    grid = crop_pad(resize(grid, large, Resizing::cubic), centre_box(large, size));
    // resampled() reads at m (o + displacement): places go back through the affine.
    const Affine back = inverse(turned);
    Displacement by;
    by.nodes = at::zeros({3, size[0], size[1], 1}, at::kFloat);
    const float* from = grid.const_data_ptr<float>();
    float* to = by.nodes.mutable_data_ptr<float>();
    const std::int64_t pixels = size[0] * size[1];
    for (std::int64_t i = 0; i < pixels; ++i) {
      const Vec3 at = map_point(back, {from[i], from[pixels + i], 0});
      const std::int64_t index[2] = {i / size[1], i % size[1]};
      for (std::size_t d = 0; d < 2; ++d)
        to[static_cast<std::int64_t>(d) * pixels + i] = static_cast<float>(
            at[d] + static_cast<double>(size[d] - 1) / 2 - static_cast<double>(index[d]));
    }
    return by;
  }
};

const Register<Rand2DElastic> registered;

}  // namespace
}  // namespace sluice
