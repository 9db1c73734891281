// tversky_loss: MONAI's TverskyLoss (Salehi, Erdogmus, Gholipour 2017).
#include "kernels/loss/class_sums.h"
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct TverskyParams : TermLossParams {
  double alpha = 0.5, beta = 0.5, smooth_nr = 1e-5, smooth_dr = 1e-5;
};

struct TverskyLoss final : TermLoss<TverskyParams> {
  static Spec spec() {
    Spec s("tversky_loss", "1 - (TP + nr) / (TP + alpha FP + beta FN + dr), counted softly.");
    add_no_reduction(add_term_loss<Params>(s));
    add_soft_label(s);
    return add_ignore_index(s)
        .param("alpha", &Params::alpha, "Weight of false positives.")
        .param("beta", &Params::beta, "Weight of false negatives.")
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator, voxels.")
        .param("smooth_dr", &Params::smooth_dr, "Added to the denominator, voxels.");
  }
  at::Tensor of(const Target& t) const override {
    const ClassSums s = class_sums(t);
    const at::Tensor wrong = p.alpha * s.false_positives() + p.beta * s.false_negatives();
    const at::Tensor score = 1 - (s.overlap + p.smooth_nr) / (s.overlap + wrong + p.smooth_dr);
    return t.options.reduction == Reduce::none ? score : t.reduce(score);  // MONAI's: [N, C]
  }
};

const Register<TverskyLoss> registered;

}  // namespace
}  // namespace sluice
