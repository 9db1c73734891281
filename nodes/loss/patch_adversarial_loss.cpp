// patch_adversarial_loss: MONAI's PatchAdversarialLoss, of what a discriminator says of images that
// are real or made. Mao et al. 2017 (least squares); Lim and Ye 2017 (hinge).
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct PatchAdversarialParams : LossParams {
  std::string criterion = "least_squares", reduction = "mean";
  bool target_is_real = true, no_activation_leastsq = false;
};

struct PatchAdversarialLoss final : LossOf<PatchAdversarialParams> {
  static Spec spec() {
    Spec s("patch_adversarial_loss",
           "How far a discriminator is from saying that images are real, or that they are made. "
           "The generator's loss is that of its own images with target_is_real.");
    return add_loss_params<Params>(
               s, "Field with what the discriminator says, without an activation.", Form::any, 0)
        .param("target_is_real", &Params::target_is_real, "What it should say.")
        .param("criterion", &Params::criterion,
               "least_squares: from 1 or 0; bce: of a sigmoid; hinge: of a tanh that is below 1, "
               "or above -1.")
        .choices({"least_squares", "bce", "hinge"})
        .param("no_activation_leastsq", &Params::no_activation_leastsq,
               "least_squares: without the leaky ReLU (0.05) before it.")
        .param("reduction", &Params::reduction, "Over all values; of hinge always the mean.")
        .choices({"mean", "sum"})
        .couples()
        .when("reduction", "sum");
  }

 private:
  at::Tensor loss(const at::Tensor& pred, const Firing&) const override {
    const at::Tensor x = pred.to(float_type(pred));
    const auto over = p.reduction == "mean" ? at::Reduction::Mean : at::Reduction::Sum;
    if (p.criterion == "hinge") {
      const at::Tensor said = x.tanh();
      return -((p.target_is_real ? said : -said) - 1).clamp_max(0).mean();
    }
    const at::Tensor wanted = at::full_like(x, p.target_is_real ? 1 : 0);
    if (p.criterion == "bce") return at::binary_cross_entropy(x.sigmoid(), wanted, {}, over);
    return at::mse_loss(p.no_activation_leastsq ? x : at::leaky_relu(x, 0.05), wanted, over);
  }
};

const Register<PatchAdversarialLoss> registered;

}  // namespace
}  // namespace sluice
