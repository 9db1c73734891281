// f_beta_score: MONAI's FBetaScore.
#include "nodes/metric/counts.h"

namespace sluice {
namespace {

struct FBetaParams : SegmentationParams {
  double beta = 1;
};

struct FBetaScore final : CountsMetric<FBetaParams> {
  static Spec spec() {
    Spec s("f_beta_score",
           "The weighted harmonic mean of precision and sensitivity of each class's voxels.");
    return add_counts_params<Params>(s)
        .param("beta", &Params::beta, "How many times more the sensitivity counts.")
        .above(0);
  }
  double measure(const Counts& c) const override {
    const double b = p.beta * p.beta, right = (1 + b) * c.tp;
    return ratio(right, right + b * c.fn + c.fp);
  }
};

const Register<FBetaScore> registered;

}  // namespace
}  // namespace sluice
