// log_hausdorff_dt_loss: MONAI's LogHausdorffDTLoss.
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct LogHausdorffDtLossParams : TermLossParams {
  double alpha = 2;
  LogHausdorffDtLossParams() { target.include_background = false; }
};

struct LogHausdorffDtLoss final : TermLoss<LogHausdorffDtLossParams> {
  static Spec spec() {
    Spec s("log_hausdorff_dt_loss", "log(1 + hausdorff_dt_loss).");
    add_term_loss<Params>(s);
    return add_distance_power<Params>(s);
  }
  bool on_host() const override { return true; }
  at::Tensor of(const Target& t) const override { return (hausdorff(t, p.alpha) + 1).log(); }
};

const Register<LogHausdorffDtLoss> registered;

}  // namespace
}  // namespace sluice
