// dice_focal_loss: MONAI's DiceFocalLoss.
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct DiceFocalParams : TermLossParams {
  DiceTerm dice;
  FocalTerm focal;
  double lambda_dice = 1, lambda_focal = 1;
};

struct DiceFocalLoss final : TermLoss<DiceFocalParams> {
  static Spec spec() {
    Spec s("dice_focal_loss", "Soft Dice plus focal loss.");
    add_term_loss<Params>(s);
    add_ignore_index(s);
    add_dice_term(s, &Params::dice);
    add_focal_term(s, &Params::focal);
    add_class_weight(s);
    add_factor(s, "lambda_dice", &Params::lambda_dice, "Factor of the Dice term.");
    return add_factor(s, "lambda_focal", &Params::lambda_focal, "Factor of the focal term.");
  }
  at::Tensor of(const Target& t) const override {
    return dice(t, p.dice, p.lambda_dice) + p.lambda_focal * focal(t, p.focal);
  }
};

const Register<DiceFocalLoss> registered;

}  // namespace
}  // namespace sluice
