// tre_loss: target registration error, the mean distance of landmarks.
#include "kernels/image/warp.h"
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct TreLossParams : LossParams {
  std::vector<double> spacing{1};
  TreLossParams() { key = {"warped_points"}, label_key = "moving_points"; }
};

struct TreLoss final : LossOf<TreLossParams> {
  static Spec spec() {
    Spec s("tre_loss",
           "Target registration error: the mean distance of landmarks from the truth's.");
    add_loss_params<Params>(s, "Field with points [N, points, axes], as warp_points gives.",
                            Form::any, 0);
    return add_label_key<Params>(s,
                                 "Field with the truth, as many; rows of -1 are none. A member "
                                 "without any counts as 0.")
        .param("spacing", &Params::spacing, "A voxel's extents, one number or one an axis.")
        .above(0)
        .length(1, 3)
        .takes("@label_key", Form::any, 0);
  }

 private:
  at::Tensor loss(const at::Tensor& pred, const Firing& f) const override {
    const at::Tensor truth = f.in().tensor(p.label_key).to(pred.options());
    if (pred.dim() != 3 || pred.sizes() != truth.sizes() ||
        (p.spacing.size() != 1 && std::ssize(p.spacing) != pred.size(2)))
      throw DataError("points " + c10::str(pred.sizes()) + ", truth " + c10::str(truth.sizes()) +
                      " and " + std::to_string(p.spacing.size()) + " of spacing do not fit");
    return target_registration_error(pred, truth, p.spacing).mean();
  }
};

const Register<TreLoss> registered;

}  // namespace
}  // namespace sluice
