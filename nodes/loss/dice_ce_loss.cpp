// dice_ce_loss: MONAI's DiceCELoss.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct DiceCeLoss final : Node {
  struct Params : DiceParams {
    double lambda_dice = 1, lambda_ce = 1;
  } p;

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
  void process(Firing& f) override {
    check_loss_inputs(f, p, static_cast<std::size_t>(f.in().tensor(p.key).size(1)));
    emit_loss(f, p, dice_);
  }

 private:
  DiceCe dice_;
};

const Register<DiceCeLoss> registered;

}  // namespace
}  // namespace sluice
