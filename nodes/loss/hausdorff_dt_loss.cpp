// hausdorff_dt_loss: MONAI's HausdorffDTLoss (Karimi, Salcudean 2019).
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct HausdorffDtLossParams : TermLossParams {
  double alpha = 2;
  HausdorffDtLossParams() { target.include_background = false; }
};

struct HausdorffDtLoss final : TermLoss<HausdorffDtLossParams> {
  static Spec spec() {
    Spec s("hausdorff_dt_loss",
           "Squared error, weighed by the distances to the surfaces of output and truth.");
    add_term_loss<Params>(s);
    return add_distance_power<Params>(s);
  }
  bool on_host() const override { return true; }
  at::Tensor of(const Target& t) const override { return hausdorff(t, p.alpha); }
};

const Register<HausdorffDtLoss> registered;

}  // namespace
}  // namespace sluice
