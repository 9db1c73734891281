// dice_loss: MONAI's DiceLoss.
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct DiceLoss final : Node {
  using Params = DiceParams;
  Params p;

  static Spec spec() {
    Spec s("dice_loss", "Soft Dice loss, 1 - (2 I + nr) / (P + T + dr), into the field \"loss\".");
    return add_dice_params<Params>(s).lane(LaneKind::step);
  }

  void open(const OpenContext&) override {
    dice_ = dice_of(p);
    dice_.lambda_ce = 0;
  }
  void process(Firing& f) override {
    const auto classes = static_cast<std::size_t>(f.in().tensor(p.key).size(1));
    check_loss_inputs(f, p, classes - (p.include_background ? 0 : 1));
    emit_loss(f, p, dice_);
  }

 private:
  DiceCe dice_;
};

const Register<DiceLoss> registered;

}  // namespace
}  // namespace sluice
