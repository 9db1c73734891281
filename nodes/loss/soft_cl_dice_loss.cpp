// soft_cl_dice_loss: MONAI's SoftclDiceLoss (Shit et al. 2021).
#include "nodes/loss/cl_dice.h"

namespace sluice {
namespace {

struct SoftClDiceLossParams : TermLossParams {
  ClDiceTerm cl_dice;
};

struct SoftClDiceLoss final : TermLoss<SoftClDiceLossParams> {
  static Spec spec() {
    Spec s("soft_cl_dice_loss",
           "Dice of skeletons (centrelines): of vessels and other thin things.");
    add_term_loss<Params>(s);
    return add_cl_dice_term(s, &Params::cl_dice);
  }
  at::Tensor of(const Target& t) const override { return cl_dice(t, p.cl_dice); }
};

const Register<SoftClDiceLoss> registered;

}  // namespace
}  // namespace sluice
