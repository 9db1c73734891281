// dice_loss: MONAI's DiceLoss.
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct DiceLossParams : TermLossParams {
  DiceTerm dice;
};

struct DiceLoss final : TermLoss<DiceLossParams> {
  static Spec spec() {
    Spec s("dice_loss", "Soft Dice loss, 1 - (2 I + nr) / (P + T + dr).");
    add_no_reduction(add_term_loss<Params>(s));
    add_soft_label(s);
    add_ignore_index(s);
    add_dice_term(s, &Params::dice);
    return add_class_weight(s);
  }
  bool masks_activated() const override { return true; }
  at::Tensor of(const Target& t) const override { return dice(t, p.dice); }
};

const Register<DiceLoss> registered;

}  // namespace
}  // namespace sluice
