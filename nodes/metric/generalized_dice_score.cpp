// generalized_dice_score: MONAI's GeneralizedDiceScore (Sudre et al. 2017).
#include <algorithm>
#include <cmath>

#include "nodes/metric/segmentation.h"

namespace sluice {
namespace {

struct GeneralizedDiceScoreParams : SegmentationParams {
  std::string weight_type;
  // A constructor: of an aggregate with a string GCC 12 says that it may be uninitialised.
  GeneralizedDiceScoreParams() : weight_type("square") {}
};

struct GeneralizedDiceScore final : SegmentationMetric<GeneralizedDiceScoreParams> {
  static Spec spec() {
    Spec s("generalized_dice_score",
           "Dice of all classes of a case together, each weighed by its voxels' inverse; by class "
           "where the reduction is mean_batch, sum_batch or none.");
    return add_segmentation_params<Params>(s)
        .param("weight_type", &Params::weight_type,
               "A class's weight, of its voxels T in the label: square: 1 / T^2; simple: 1 / T; "
               "uniform: 1. A class that the label lacks weighs as much as the heaviest other.")
        .choices({"square", "simple", "uniform"});
  }
  Row row(const Case& c) const override {
    std::vector<ClassOverlap> all;
    Row row = by_class(c, [&](const ClassOverlap& o, std::int64_t of_class) {
      if (p.ignore_index == of_class) return static_cast<double>(NAN);
      all.push_back(o);
      return o.truth + o.pred > 0 ? 2 * o.both / (o.truth + o.pred) : 1.0;
    });
    if (p.reduction.ends_with("_batch") || p.reduction == "none") return row;
    double heaviest = 0, both = 0, areas = 0;
    for (const ClassOverlap& o : all)
      if (o.truth > 0) heaviest = std::max(heaviest, weight(o.truth));
    for (const ClassOverlap& o : all) {
      const double w = o.truth > 0 ? weight(o.truth) : heaviest > 0 ? heaviest : 1;
      both += w * o.both;
      areas += w * (o.truth + o.pred);
    }
    return {{areas > 0 ? 2 * both / areas : 1.0}, 0, false};
  }

 private:
  double weight(double voxels) const {
    if (p.weight_type == "uniform") return 1;
    return p.weight_type == "simple" ? 1 / voxels : 1 / (voxels * voxels);
  }
};

const Register<GeneralizedDiceScore> registered;

}  // namespace
}  // namespace sluice
