// mcc_loss: MONAI's MCCLoss.
#include "kernels/loss/class_sums.h"
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct MccLossParams : TermLossParams {
  double smooth_nr = 0, smooth_dr = 1e-5;
};

struct MccLoss final : TermLoss<MccLossParams> {
  static Spec spec() {
    Spec s("mcc_loss", "1 - Matthews' correlation coefficient, counted softly.");
    return add_term_loss<Params>(s)
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator.")
        .param("smooth_dr", &Params::smooth_dr, "Added below the root of the denominator.");
  }
  at::Tensor of(const Target& t) const override {
    const ClassSums s = class_sums(t);
    const at::Tensor &tp = s.overlap, fp = s.false_positives(), fn = s.false_negatives();
    const at::Tensor tn = s.voxels - s.truth - fp;
    const at::Tensor all = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn) + p.smooth_dr;
    const at::Tensor score = 1 - (tp * tn - fp * fn + p.smooth_nr) / all.sqrt();
    return t.reduce(score.masked_fill(fp.eq(0).logical_and(fn.eq(0)), 0));
  }
};

const Register<MccLoss> registered;

}  // namespace
}  // namespace sluice
