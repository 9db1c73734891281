// rand_gaussian_blur: batchgeneratorsv2's GaussianBlurTransform.
#include <cmath>

#include "kernels/image/separable.h"
#include "nodes/transform/channel_draws.h"

namespace sluice {
namespace {

struct RandGaussianBlur final : EachChannel<RandGaussianBlur> {
  struct Params : ChannelParams {
    std::vector<double> sigma{0.5, 1};
    double truncate = 6;
  } p;

  static Spec spec() {
    return channel_spec<Params>(
               "rand_gaussian_blur",
               "Smooths each channel, along each axis by a width of its own, as nnU-Net does.")
        .param("sigma", &Params::sigma, "[low, high]: standard deviation in voxels.")
        .length(2, 2)
        .above(0)
        .param("truncate", &Params::truncate,
               "The weights are as many as the odd number next to truncate sigma + 0.5.")
        .above(0);
  }

  at::Tensor changed(const at::Tensor& x, std::int64_t axes, Random& random) const {
    Bands bands;
    for (std::int64_t d = 0; d < 3; ++d) {
      const auto n = x.size(d + 1);
      bands[static_cast<std::size_t>(d)] =
          d < axes ? band(n, weights(random.uniform(p.sigma[0], p.sigma[1]))) : keep_axis(n);
    }
    return map_axes(x, bands);
  }

 private:
  std::vector<float> weights(double sigma) const {
    const double wanted = sigma * p.truncate + 0.5;
    auto count = static_cast<std::int64_t>(std::nearbyint(wanted));
    if (count % 2 == 0) count += wanted >= static_cast<double>(count) ? 1 : -1;
    std::vector<float> w;
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = static_cast<double>(i) - static_cast<double>(count - 1) / 2;
      w.push_back(static_cast<float>(std::exp(-0.5 * (x / sigma) * (x / sigma))));
      sum += w.back();
    }
    for (float& v : w) v = static_cast<float>(v / sum);
    return w;
  }

  // Reflected at the outer voxels' centres, as torch's pad "reflect"; an axis of few voxels again
  // and again.
  static Band band(std::int64_t n, const std::vector<float>& weights) {
    const auto taps = static_cast<std::int64_t>(weights.size()),
               period = std::max<std::int64_t>(1, 2 * (n - 1));
    Band b;
    b.size = n;
    b.taps = static_cast<int>(taps);
    for (std::int64_t t = 0; t < taps; ++t)
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t at = (i + t - taps / 2) % period;
        if (at < 0) at += period;
        b.cell.push_back(static_cast<std::int32_t>(std::min(at, period - at)));
        b.weight.push_back(weights[static_cast<std::size_t>(t)]);
      }
    return b;
  }
};

const Register<RandGaussianBlur> registered;

}  // namespace
}  // namespace sluice
