// rand_affine: MONAI's RandAffined. One random affine about the centre for all keys.
#include "nodes/transform/rand_affine_params.h"

namespace sluice {
namespace {

struct RandAffine final : FusedNode {
  using Params = RandAffineParams;
  Params p;
  AffineRanges ranges;

  static Spec spec() {
    Spec s("rand_affine", "Rotates, shears, shifts and scales all keys by one random affine.");
    add_image_keys<Params>(s, "resample");
    return add_rand_affine_params(s, 2, 3);
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
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       const Shape3 size = p.size(shape, axes);
                       if (!doing && size == shape) return;
                       const Sampling how = p.sampling(i);
                       const Affine m = about_centres(centred_affine(drawn, axes), shape, size);
                       // values: output -> source voxels.
                       record(field, resampled(m, size, how), "rand_affine",
                              with_sampling({m.begin(), m.end()}, how));
                     });
    finish(f, std::move(out));
  }
};

const Register<RandAffine> registered;

}  // namespace
}  // namespace sluice
