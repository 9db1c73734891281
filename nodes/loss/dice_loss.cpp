// dice_loss: MONAI's DiceLoss.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct DiceLoss final : DiceTermLoss<DiceParams> {
  static Spec spec() {
    Spec s("dice_loss", "Soft Dice loss, 1 - (2 I + nr) / (P + T + dr), into the field \"loss\".");
    return add_dice_params<Params>(s).lane(LaneKind::step);
  }

  void open(const OpenContext&) override {
    dice_ = dice_of(p);
    dice_.lambda_ce = 0;
  }
};

const Register<DiceLoss> registered;

}  // namespace
}  // namespace sluice
