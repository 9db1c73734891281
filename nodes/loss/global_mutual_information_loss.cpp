// global_mutual_information_loss: MONAI's GlobalMutualInformationLoss.
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct GmiLossParams : PairLossParams {
  std::string kernel_type = "gaussian";
  std::int64_t num_bins = 23;
  double sigma_ratio = 0.5, smooth_nr = 1e-7, smooth_dr = 1e-7;
};

struct GmiLoss final : PairLoss<GmiLossParams> {
  static Spec spec() {
    Spec s("global_mutual_information_loss",
           "Less the mutual information of output and truth, each voxel spread over bins of "
           "intensity.");
    return add_pair_loss<Params>(s)
        .param("kernel_type", &Params::kernel_type,
               "gaussian: of intensities in [0, 1]; b-spline: of their own range.")
        .choices({"gaussian", "b-spline"})
        .param("num_bins", &Params::num_bins, "Bins of intensity; b-spline: more than 4.")
        .at_least(2)
        .param("sigma_ratio", &Params::sigma_ratio, "Standard deviation of the Gaussian, bins.")
        .above(0)
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator.")
        .param("smooth_dr", &Params::smooth_dr, "Added to the denominator.");
  }
  void open(const OpenContext&) override {
    if (p.kernel_type == "b-spline" && p.num_bins <= 4)
      throw Error(Exit::usage, "b-spline needs more than 4 num_bins");
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    const at::Tensor a = bins(pred, 3), b = bins(truth, 0);
    const at::Tensor both = at::bmm(a, b.transpose(1, 2)) / a.size(2);
    const at::Tensor apart = at::bmm(a.mean(2, true), b.mean(2, true).transpose(1, 2));
    const at::Tensor share = (both + p.smooth_nr) / (apart + p.smooth_dr);
    return -reduce((both * (share + p.smooth_dr).log()).sum({1, 2}));
  }

 private:
  // The share of each bin in each voxel, [N, bins, voxels]: long rows, which is what takes little
  // time.
  at::Tensor bins(const at::Tensor& image, int order) const {
    const double last = static_cast<double>(p.num_bins - 1);
    if (p.kernel_type == "gaussian") {  // over their sum: a softmax of the exponents
      const at::Tensor x = image.clamp(0, 1).flatten(1).unsqueeze(1);
      const at::Tensor centres = at::arange(p.num_bins, x.options()).unsqueeze(1) / last;
      const double sigma = p.sigma_ratio / last;
      return ((x - centres).square() * (-1 / (2 * sigma * sigma))).softmax(1);
    }
    const at::Tensor low = image.min(),
                     size = (image.max() - low) / static_cast<double>(p.num_bins - 4);
    const at::Tensor x =
        (image / size - (low / size - 2)).clamp(2, last - 2).flatten(1).unsqueeze(1);
    const at::Tensor d = (at::arange(p.num_bins, x.options()).unsqueeze(1) - x).abs();
    const at::Tensor w = order == 0 ? d.lt(0.5).to(d.scalar_type()) + d.eq(0.5) * 0.5
                                    : (4 - 6 * d * d + 3 * d * d * d) / 6 * d.lt(1) +
                                          (2 - d).pow(3) / 6 * d.ge(1).logical_and(d.lt(2));
    return w / w.sum(1, true);
  }
};

const Register<GmiLoss> registered;

}  // namespace
}  // namespace sluice
