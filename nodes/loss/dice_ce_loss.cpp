// dice_ce_loss: MONAI's DiceCELoss.
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct DiceCeParams : TermLossParams {
  DiceTerm dice;
  double lambda_dice = 1, lambda_ce = 1;
};

struct DiceCeLoss final : TermLoss<DiceCeParams> {
  static Spec spec() {
    Spec s("dice_ce_loss", "Soft Dice plus cross entropy (binary for one channel).");
    add_term_loss<Params>(s);
    param_of(s, "label_smoothing", &TermLossParams::target, &TargetOptions::label_smoothing,
             "Share of the truth that the cross entropy spreads evenly over the classes.")
        .range(0, 1);
    add_ignore_index(s);
    add_dice_term(s, &Params::dice);
    // The cross entropy's mean is a weighted one, over the voxels that count.
    add_class_weight(s).couples().when("weight").couples().when("ignore_index");
    add_factor(s, "lambda_dice", &Params::lambda_dice, "Factor of the Dice term.");
    return add_factor(s, "lambda_ce", &Params::lambda_ce, "Factor of the cross entropy.");
  }
  at::Tensor of(const Target& t) const override {
    return dice_ce(t, p.dice, p.lambda_dice, p.lambda_ce);
  }

 private:
  std::int64_t weights(const Target& t) const override { return t.classes(); }  // cross entropy's
};

const Register<DiceCeLoss> registered;

}  // namespace
}  // namespace sluice
