// soft_dice_cl_dice_loss: MONAI's SoftDiceclDiceLoss (Shit et al. 2021).
#include "nodes/loss/cl_dice.h"

namespace sluice {
namespace {

struct SoftDiceClDiceLossParams : TermLossParams {
  ClDiceTerm cl_dice;
  double alpha = 0.5;
};

struct SoftDiceClDiceLoss final : TermLoss<SoftDiceClDiceLossParams> {
  static Spec spec() {
    Spec s("soft_dice_cl_dice_loss", "(1 - alpha) Dice + alpha Dice of skeletons.");
    add_term_loss<Params>(s);
    return add_cl_dice_term(s, &Params::cl_dice)
        .param("alpha", &Params::alpha, "Share of the skeletons.")
        .range(0, 1);
  }
  at::Tensor of(const Target& t) const override {
    const DiceTerm whole{.smooth_nr = p.cl_dice.smooth_nr, .smooth_dr = p.cl_dice.smooth_dr};
    return dice(t, whole, 1 - p.alpha) + p.alpha * cl_dice(t, p.cl_dice);
  }
};

const Register<SoftDiceClDiceLoss> registered;

}  // namespace
}  // namespace sluice
