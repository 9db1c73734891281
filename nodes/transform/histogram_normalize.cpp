// histogram_normalize: MONAI's HistogramNormalized.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct HistogramNormalize final : Node {
  struct Params : KeyParams {
    std::int64_t num_bins = 256;
    double min = 0, max = 255;
    std::optional<std::string> mask_key;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("histogram_normalize",
                                 "Gives an image's histogram equal shares: each voxel becomes the "
                                 "share of the voxels below it.",
                                 "Fields to change, each [C, ...]; they become float32.")
        .param("num_bins", &Params::num_bins, "Bins between the smallest and the largest voxel.")
        .at_least(1)
        .param("min", &Params::min, "What the share of the lowest bin becomes.")
        .param("max", &Params::max, "What the share of all becomes.")
        .param("mask_key", &Params::mask_key,
               "If set, the histogram is that of the voxels where this field is not 0.")
        .takes("@keys", Form::image)
        .takes("@mask_key", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const at::Tensor x = field.tensor.to(at::kDouble).contiguous();
      at::Tensor counted = x;
      if (p.mask_key)
        counted = x.masked_select(at::ne(f.in().tensor(*p.mask_key), 0).expand_as(x)).contiguous();
      if (counted.numel() == 0) throw DataError("no voxel is there to count");
      field.tensor = equalised(x, counted).to(at::kFloat);
    });
    f.emit(std::move(out));
  }

  at::Tensor equalised(const at::Tensor& x, const at::Tensor& counted) const {
    const auto n = static_cast<std::size_t>(p.num_bins);
    double low = counted.min().item<double>(), high = counted.max().item<double>();
    if (low == high) low -= 0.5, high += 0.5;
    const double width = (high - low) / static_cast<double>(n);
    const auto bin = [&](double v) {
      return std::min(static_cast<std::size_t>(std::max((v - low) / width, 0.0)), n - 1);
    };
    std::vector<double> share(n);
    const double* v = counted.const_data_ptr<double>();
    for (std::int64_t i = 0; i < counted.numel(); ++i) ++share[bin(v[i])];
    for (std::size_t b = 1; b < n; ++b) share[b] += share[b - 1];
    const double first = share.front(), range = share.back() - first;
    for (double& s : share)
      s = range == 0 ? s * p.min : (s - first) / range * (p.max - p.min) + p.min;
    const at::Tensor out = at::empty_like(x);
    double* to = out.mutable_data_ptr<double>();
    const double* from = x.const_data_ptr<double>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double at = (from[i] - low) / width - 0.5;  // in bins, counted from the first's centre
      if (at <= 0 || n == 1) {
        to[i] = share.front();
      } else if (at >= static_cast<double>(n - 1)) {
        to[i] = share.back();
      } else {
        const auto b = static_cast<std::size_t>(at);
        to[i] = share[b] + (share[b + 1] - share[b]) * (at - static_cast<double>(b));
      }
    }
    return out;
  }
};

const Register<HistogramNormalize> registered;

}  // namespace
}  // namespace sluice
