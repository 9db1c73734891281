// generalized_dice_focal_loss: MONAI's GeneralizedDiceFocalLoss.
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct GeneralizedDiceFocalParams : TermLossParams {
  GeneralizedDiceTerm dice;
  FocalTerm focal;
  double lambda_gdl = 1, lambda_focal = 1;
};

struct GeneralizedDiceFocalLoss final : TermLoss<GeneralizedDiceFocalParams> {
  static Spec spec() {
    Spec s("generalized_dice_focal_loss", "Generalised Dice plus focal loss.");
    add_term_loss<Params>(s);
    add_generalized_dice_term(s, &Params::dice);
    param_of(s, "gamma", &Params::focal, &FocalTerm::gamma,
             "How much less a voxel counts in the focal term that is right already.")
        .at_least(0);
    add_class_weight(s);
    add_factor(s, "lambda_gdl", &Params::lambda_gdl, "Factor of the generalised Dice term.");
    return add_factor(s, "lambda_focal", &Params::lambda_focal, "Factor of the focal term.");
  }
  at::Tensor of(const Target& t) const override {
    return p.lambda_gdl * generalized_dice(t, p.dice) + p.lambda_focal * focal(t, p.focal);
  }
};

const Register<GeneralizedDiceFocalLoss> registered;

}  // namespace
}  // namespace sluice
