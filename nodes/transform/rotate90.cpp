// rotate90: MONAI's Rotate90d.
#include "nodes/transform/cropping.h"
#include "nodes/transform/reordering.h"

namespace sluice {
namespace {

struct Rotate90 final : FusedNode {
  struct Params : CropParams {
    std::int64_t k = 1;
    std::vector<std::int64_t> spatial_axes{0, 1};
  } p;

  static Spec spec() {
    Spec s("rotate90", "Turns by quarter turns.");
    add_crop_params(s, "turn", 2)
        .param("k", &Params::k, "Quarter turns; negative: the other way round.");
    return add_turn_axes<Params>(s).rearranging();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    require_two_axes(p.spatial_axes);
  }

  void process(Firing& f) override {
    const int k = static_cast<int>((p.k % 4 + 4) % 4);
    if (k == 0) return pass(f);
    Sample out = f.in();
    sluice::rotate90(out, p, k, "rotate90");
    finish(f, std::move(out));
  }
};

const Register<Rotate90> registered;

}  // namespace
}  // namespace sluice
