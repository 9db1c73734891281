// nr_dice_loss: the noise-robust Dice loss of Wang et al. 2020 (COPLE-Net's).
#include <ATen/ops/abs.h>
#include <ATen/ops/pow.h>

#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct NrDiceParams : TermLossParams {
  double gamma = 1.5, smooth_nr = 0, smooth_dr = 1e-5;
  std::int64_t warmup_epochs = 0;
};

struct NrDiceLoss final : TermLoss<NrDiceParams> {
  static Spec spec() {
    Spec s(
        "nr_dice_loss",
        "Noise-robust Dice, sum |P - T|^gamma / sum (P^2 + T^2). The less gamma, the less count "
        "labels that are wrong; 2: Dice with squares; 1: the mean absolute error of each class.");
    add_term_loss<Params>(s);
    return s
        .param("gamma", &Params::gamma,
               "Power of the difference. 1.5 from random weights stays at background alone for "
               "long: see warmup_epochs.")
        .range(1, 2)
        .param("warmup_epochs", &Params::warmup_epochs, "Epochs in which gamma is 2.")
        .at_least(0)
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator, voxels.")
        .param("smooth_dr", &Params::smooth_dr, "Added to the denominator, voxels.");
  }
  at::Tensor of(const Target& t) const override {
    const at::Tensor &x = t.prob(), &y = t.truth();
    const at::Tensor apart = (x - y).abs().pow(gamma_), size = x * x + y * y;
    return t.reduce((t.sum(apart) + p.smooth_nr) / (t.sum(size) + p.smooth_dr));
  }

 private:
  void prepare(const Firing& f) override {
    gamma_ = static_cast<std::int64_t>(f.stamp().epoch) < p.warmup_epochs ? 2 : p.gamma;
  }
  bool on_host() const override { return p.warmup_epochs > 0; }

  double gamma_ = 0;
};

const Register<NrDiceLoss> registered;

}  // namespace
}  // namespace sluice
