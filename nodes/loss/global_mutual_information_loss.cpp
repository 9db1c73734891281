// global_mutual_information_loss: MONAI's GlobalMutualInformationLoss.
#include "kernels/base/autograd.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

// The share of each bin in each voxel, [N, bins, voxels]: long rows, which is what takes little
// time. A Gaussian's over their sum is a softmax of the exponents, -steepness (x - centre)^2.
struct GaussianBins {
  std::int64_t count;
  double steepness;
  at::Tensor centres(const at::Tensor& like) const {
    return at::arange(count, like.options()).unsqueeze(1) / static_cast<double>(count - 1);
  }
  at::Tensor of(const at::Tensor& voxels) const {  // [N, voxels]
    const at::Tensor x = voxels.clamp(0, 1).unsqueeze(1);
    return (x - centres(voxels)).square().mul(-steepness).softmax(1);
  }
};

// How often bins of two images meet, and the bins of the first: [N, bins, bins], [N, bins, 1] and
// [N, bins, 1], means over voxels. Block by block, computed again for the gradient, since the bins
// of all voxels are so many times an image.
struct Histograms {
  at::Tensor a, b;  // [N, voxels]
  GaussianBins bins;
  static constexpr std::int64_t block = 1 << 13;  // voxels

  template <class F>
  void each_block(const F& f) const {
    for (std::int64_t at = 0; at < a.size(1); at += block) f(at, std::min(block, a.size(1) - at));
  }
  std::array<at::Tensor, 3> sums() const {
    const std::int64_t n = a.size(0), k = bins.count;
    const at::Tensor both = at::zeros({n, k, k}, a.options()),
                     first = at::zeros({n, k, 1}, a.options()), second = at::zeros_like(first);
    each_block([&](std::int64_t at, std::int64_t voxels) {
      const at::Tensor x = bins.of(a.narrow(1, at, voxels)), y = bins.of(b.narrow(1, at, voxels));
      both.baddbmm_(x, y.transpose(1, 2));
      first.add_(x.sum(2, true));
      second.add_(y.sum(2, true));
    });
    const auto all = static_cast<double>(a.size(1));
    return {both.div_(all), first.div_(all), second.div_(all)};
  }
  // With s the softmax, m the centres and g its gradient: 2 steepness sum_k h_k (m_k - x), where
  // h = s (g - sum_j s_j g_j).
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::Tensor out = at::empty_like(a), m = bins.centres(a);
    const double scale = 2 * bins.steepness / static_cast<double>(a.size(1));
    each_block([&](std::int64_t at, std::int64_t voxels) {
      const at::Tensor x = a.narrow(1, at, voxels), s = bins.of(x);
      const at::Tensor h =
          at::baddbmm(grads[1], grads[0], bins.of(b.narrow(1, at, voxels))).mul_(s);
      h.sub_(s * h.sum(1, true)).mul_(m - x.clamp(0, 1).unsqueeze(1));
      out.narrow(1, at, voxels).copy_(h.sum(1).mul_(scale).mul_(x.ge(0).logical_and_(x.le(1))));
    });
    return {out};
  }
};

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
  void open(const OpenContext& context) override {
    PairLoss::open(context);
    if (p.kernel_type == "b-spline" && p.num_bins <= 4)
      throw Error(Exit::usage, "b-spline needs more than 4 num_bins");
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    if (p.kernel_type == "gaussian" && !truth.requires_grad()) {
      const at::Tensor a = pred.flatten(1);
      const Histograms joint{a.detach(), truth.flatten(1), gaussian()};
      auto [both, first, second] = joint.sums();
      attach("HistogramsBackward", {both, first}, {a}, joint);
      return information(both, first, second);
    }
    const at::Tensor a = bins(pred, 3), b = bins(truth, 0);
    const at::Tensor both = at::bmm(a, b.transpose(1, 2)) / a.size(2);
    return information(both, a.mean(2, true), b.mean(2, true));
  }

 private:
  at::Tensor information(const at::Tensor& both, const at::Tensor& first,
                         const at::Tensor& second) const {
    const at::Tensor apart = at::bmm(first, second.transpose(1, 2));
    const at::Tensor share = (both + p.smooth_nr) / (apart + p.smooth_dr);
    return -reduce((both * (share + p.smooth_dr).log()).sum({1, 2}));
  }

  GaussianBins gaussian() const {
    const double sigma = p.sigma_ratio / static_cast<double>(p.num_bins - 1);
    return {p.num_bins, 1 / (2 * sigma * sigma)};
  }

  at::Tensor bins(const at::Tensor& image, int order) const {
    const double last = static_cast<double>(p.num_bins - 1);
    if (p.kernel_type == "gaussian") return gaussian().of(image.flatten(1));
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
