// log_hausdorff_dt_loss: MONAI's LogHausdorffDTLoss.
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct LogHausdorffDtLoss final : HausdorffLoss {
  static Spec spec() { return made("log_hausdorff_dt_loss", "log(1 + hausdorff_dt_loss)."); }
  at::Tensor of(const Target& t) const override { return (hausdorff(t, p.alpha) + 1).log(); }
};

const Register<LogHausdorffDtLoss> registered;

}  // namespace
}  // namespace sluice
