// local_normalized_cross_correlation_loss: MONAI's LocalNormalizedCrossCorrelationLoss.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct LnccLossParams : PairLossParams {
  std::int64_t kernel_size = 3;
  std::string kernel_type = "rectangular";
  double smooth_nr = 0, smooth_dr = 1e-5;
};

struct LnccLoss final : PairLoss<LnccLossParams> {
  static Spec spec() {
    Spec s("local_normalized_cross_correlation_loss",
           "Less the squared correlation of output and truth in a window around each voxel.");
    return add_pair_loss<Params>(s)
        .param("kernel_size", &Params::kernel_size,
               "Extent of the window, an odd number of voxels.")
        .at_least(1)
        .odd()
        .param("kernel_type", &Params::kernel_type, "The window's weights.")
        .choices({"rectangular", "triangular", "gaussian"})
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator.")
        .param("smooth_dr", &Params::smooth_dr, "The least variance.");
  }
  bool windowed() const override { return true; }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    const auto weights = window_kernel(p.kernel_size, p.kernel_type);
    double total = 0;
    for (const double w : weights) total += w;
    const double volume = std::pow(total, static_cast<double>(pred.dim() - 2));
    const auto sum = [&](const at::Tensor& x) { return filtered(x, weights); };
    const at::Tensor t = sum(truth), x = sum(pred);
    const at::Tensor cross = sum(truth * pred) - x / volume * t;
    const at::Tensor varies = (sum(truth * truth) - t / volume * t).clamp_min(p.smooth_dr) *
                              (sum(pred * pred) - x / volume * x).clamp_min(p.smooth_dr);
    return -reduce((cross * cross + p.smooth_nr) / varies);
  }
};

const Register<LnccLoss> registered;

}  // namespace
}  // namespace sluice
