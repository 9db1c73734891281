// generalized_dice_loss: MONAI's GeneralizedDiceLoss (Sudre et al. 2017).
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct GeneralizedDiceLossParams : TermLossParams {
  GeneralizedDiceTerm dice;
};

struct GeneralizedDiceLoss final : TermLoss<GeneralizedDiceLossParams> {
  static Spec spec() {
    Spec s("generalized_dice_loss",
           "Soft Dice of sums over classes, each weighted by what it rarely has: 1 / T^2.");
    add_no_reduction(add_term_loss<Params>(s));
    add_soft_label(s);
    return add_generalized_dice_term(s, &Params::dice);
  }
  at::Tensor of(const Target& t) const override { return generalized_dice(t, p.dice); }
};

const Register<GeneralizedDiceLoss> registered;

}  // namespace
}  // namespace sluice
