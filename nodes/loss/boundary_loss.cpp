// boundary_loss: MONAI's BoundaryLoss (Kervadec et al. 2019).
#include "nodes/loss/distance_loss.h"

namespace sluice {
namespace {

struct BoundaryLoss final : TermLoss<TermLossParams> {
  static Spec spec() {
    Spec s("boundary_loss",
           "The output times the signed distance to the truth's boundary, the mean over voxels.");
    return add_term_loss<Params>(s);
  }
  bool on_host() const override { return true; }
  at::Tensor of(const Target& t) const override {
    const double voxels = static_cast<double>(t.prob()[0][0].numel());
    const at::Tensor by_class = weighed_sums(t, signed_distances(t.truth())) / voxels;
    return t.reduce(t.options.batch ? by_class.mean(0) : by_class);
  }
};

const Register<BoundaryLoss> registered;

}  // namespace
}  // namespace sluice
