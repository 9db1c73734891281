// dice_focal_loss: MONAI's DiceFocalLoss.
#include "kernels/loss/focal.h"
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct DiceFocalParams : DiceParams {
  double gamma = 2, lambda_dice = 1, lambda_focal = 1;
  std::optional<double> alpha;
};

struct DiceFocalLoss final : DiceTermLoss<DiceFocalParams> {
  static Spec spec() {
    Spec s("dice_focal_loss", "Soft Dice plus focal loss, into the field \"loss\".");
    return add_dice_params<Params>(s)
        .param("gamma", &Params::gamma, "How much less a voxel counts that is right already.")
        .at_least(0)
        .param("alpha", &Params::alpha,
               "The focal term's weight of the foreground, with 1 - alpha for the background.")
        .range(0, 1)
        .param("lambda_dice", &Params::lambda_dice, "Factor of the Dice term.")
        .at_least(0)
        .param("lambda_focal", &Params::lambda_focal, "Factor of the focal term.")
        .at_least(0)
        .lane(LaneKind::step);
  }

  void open(const OpenContext&) override {
    dice_ = dice_of(p);
    dice_.lambda_ce = 0;
    dice_.lambda_dice = p.lambda_dice;
    focal_ = {p.include_background, p.to_onehot_y, dice_.mean, p.gamma, p.alpha, dice_.dice_weight};
  }

 private:
  at::Tensor loss(const Firing& f) const override {
    const at::Tensor &pred = f.in().tensor(p.key), &label = f.in().tensor(p.label_key);
    return dice_ce(pred, label, dice_) + p.lambda_focal * focal_loss(pred, label, focal_);
  }

  Focal focal_;
};

const Register<DiceFocalLoss> registered;

}  // namespace
}  // namespace sluice
