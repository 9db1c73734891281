// hausdorff_dt_loss: MONAI's HausdorffDTLoss (Karimi, Salcudean 2019).
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct HausdorffDtLoss final : HausdorffLoss {
  static Spec spec() {
    return made("hausdorff_dt_loss",
                "Squared error, weighed by the distances to the surfaces of output and truth.");
  }
  at::Tensor of(const Target& t) const override { return hausdorff(t, p.alpha); }
};

const Register<HausdorffDtLoss> registered;

}  // namespace
}  // namespace sluice
