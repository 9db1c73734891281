// log_hausdorff_dt_loss: MONAI's LogHausdorffDTLoss.
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct LogHausdorffDtLoss final : HausdorffLoss {
  static Spec spec() {
    Spec s = made("log_hausdorff_dt_loss", "log(1 + hausdorff_dt_loss).");
    return s.couples();  // of a mean over samples
  }
  at::Tensor of(const Target& t) const override { return (hausdorff(t, p.alpha) + 1).log(); }
};

const Register<LogHausdorffDtLoss> registered;

}  // namespace
}  // namespace sluice
