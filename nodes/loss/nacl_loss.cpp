// nacl_loss: MONAI's NACLLoss (Murugesan et al. 2023).
#include "kernels/base/autograd.h"
#include "kernels/image/gaussian.h"
#include "kernels/loss/similarity.h"
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct NaclLossParams : TermLossParams {
  std::int64_t kernel_size = 3;
  std::string kernel_ops = "mean", distance_type = "l1";
  double alpha = 0.1, sigma = 1;
  NaclLossParams() { target.to_onehot_y = true; }
};

struct NaclLoss final : TermLoss<NaclLossParams> {
  static Spec spec() {
    Spec s("nacl_loss",
           "Cross entropy, and the distance of the logits from the truth's mean over each voxel's "
           "neighbours.");
    return add_label_loss<Params>(s)
        .param("kernel_size", &Params::kernel_size,
               "Extent of the neighbourhood, an odd number of voxels.")
        .at_least(1)
        .odd()
        .param("kernel_ops", &Params::kernel_ops, "Weights of the neighbours.")
        .choices({"mean", "gaussian"})
        .param("distance_type", &Params::distance_type, "l1: absolute; l2: squared.")
        .choices({"l1", "l2"})
        .param("alpha", &Params::alpha, "Factor of the distance.")
        .param("sigma", &Params::sigma, "The Gaussian's standard deviation, voxels.")
        .above(0);
  }
  bool on_host() const override { return true; }  // takes the windows' weights
  at::Tensor of(const Target& t) const override {
    std::vector<double> weights(static_cast<std::size_t>(p.kernel_size),
                                1 / static_cast<double>(p.kernel_size));
    if (p.kernel_ops == "gaussian") {
      const auto half = gaussian_weights(p.sigma);
      weights.assign(half.begin(), half.end());
    }
    const at::Tensor distance = distance_to(filtered(t.truth(), weights), t.logits());
    return cross_entropy(t) + p.alpha * distance;
  }

 private:
  // The mean over all values. The gradient is made at once, in the place of the differences.
  at::Tensor distance_to(const at::Tensor& mean, const at::Tensor& logits) const {
    const bool l1 = p.distance_type == "l1";
    const at::Tensor apart = logits.detach() - mean;
    const at::Tensor distance = (l1 ? apart.abs() : apart.square()).mean();
    const double each = 1 / static_cast<double>(apart.numel());
    attach("DistanceBackward", {distance}, {logits},
           MadeGradient{l1 ? apart.sign_().mul_(each) : apart.mul_(2 * each)});
    return distance;
  }
};

const Register<NaclLoss> registered;

}  // namespace
}  // namespace sluice
