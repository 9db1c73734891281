// rand_binary_operator: batchgeneratorsv2's ApplyRandomBinaryOperatorTransform.
#include "kernels/image/morphology.h"
#include "nodes/transform/one_hot_draws.h"

namespace sluice {
namespace {

struct RandBinaryOperator final : Node {
  struct Params : OneHotDraws {
    std::vector<double> radius{1, 8};
    std::vector<std::string> operators{"dilation", "erosion", "closing", "opening"};
    Params() { prob = 0.4; }
  } p;

  static Spec spec() {
    return one_hot_spec(
               "rand_binary_operator",
               "Lets labels of a one-hot map grow, shrink, close or open by a ball, as nnU-Net "
               "does "
               "with what a cascade's first stage predicted: a voxel that a label gains is lost to "
               "the others.")
        .param("radius", &Params::radius, "[low, high] of the ball's radius, voxels.")
        .length(2, 2)
        .at_least(1)
        .param("operators", &Params::operators, "Of which each label draws one.")
        .length(1)
        .choices({"dilation", "erosion", "closing", "opening"});
  }

  void process(Firing& f) override {
    process_one_hot(f, p, [&](at::Tensor& map, std::int64_t c, Random& random) {
      const std::string& which = p.operators[random.integer(p.operators.size())];
      const double r = random.uniform(p.radius[0], p.radius[1]);
      const at::Tensor before = map[c];
      const at::Tensor after = which == "dilation"  ? dilated(before, r)
                               : which == "erosion" ? eroded(before, r)
                               : which == "closing" ? eroded(dilated(before, r), r)
                                                    : dilated(eroded(before, r), r);
      map.masked_fill_(after.gt(before), 0);
      map[c].copy_(after);
    });
  }
};

const Register<RandBinaryOperator> registered;

}  // namespace
}  // namespace sluice
