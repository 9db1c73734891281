// dice_ce_loss: MONAI's DiceCELoss.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct DiceCeParams : DiceParams {
  double lambda_dice = 1, lambda_ce = 1;
};

struct DiceCeLoss final : DiceTermLoss<DiceCeParams> {
  static Spec spec() {
    Spec s("dice_ce_loss",
           "Soft Dice plus cross entropy (binary for one channel), into the field \"loss\".");
    return add_dice_params<Params>(s)
        .param("lambda_dice", &Params::lambda_dice, "Factor of the Dice term.")
        .at_least(0)
        .param("lambda_ce", &Params::lambda_ce, "Factor of the cross entropy.")
        .at_least(0)
        .lane(LaneKind::step);
  }

  void open(const OpenContext&) override {
    dice_ = dice_of(p);
    dice_.lambda_dice = p.lambda_dice;
    dice_.lambda_ce = p.lambda_ce;
    dice_.ce_weight = dice_.dice_weight;
    if (!p.include_background && dice_.dice_weight.size() > 1)
      dice_.dice_weight.erase(dice_.dice_weight.begin());
  }

 private:
  std::int64_t counted(std::int64_t classes) const override { return classes; }  // cross entropy's
};

const Register<DiceCeLoss> registered;

}  // namespace
}  // namespace sluice
