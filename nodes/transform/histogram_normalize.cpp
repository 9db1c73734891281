// histogram_normalize: MONAI's HistogramNormalized.
#include <ATen/Functions.h>

#include <cmath>

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
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor x = field.tensor.to(at::kFloat).contiguous();
      at::Tensor counted = x;
      if (p.mask_key) {
        const at::Tensor& mask = f.in().tensor(*p.mask_key);
        require_mask(mask, x, p.keys[i]);
        counted = x.masked_select(at::ne(mask, 0).expand_as(x)).contiguous();
      }
      if (counted.numel() == 0)
        throw DataError("field \"" + p.keys[i] + "\" has no voxel to count");
      field.tensor = equalised(x, counted, p.keys[i]);
    });
    f.emit(std::move(out));
  }

  // As numpy.histogram and numpy.interp: a bin's edges and centre are float32, and a voxel on an
  // edge belongs to the bin above it.
  at::Tensor equalised(const at::Tensor& x, const at::Tensor& counted,
                       const std::string& key) const {
    const auto n = static_cast<std::size_t>(p.num_bins);
    float low = counted.min().item<float>(), high = counted.max().item<float>();
    if (!std::isfinite(low) || !std::isfinite(high))
      throw DataError("field \"" + key +
                      "\": a voxel is not a finite number, so that there are no bins to count in");
    if (low == high) low -= 0.5f, high += 0.5f;
    std::vector<float> edges(n + 1), centres(n);
    const float step = (high - low) / static_cast<float>(n);
    for (std::size_t b = 0; b < n; ++b) {  // rounded twice, as numpy.linspace of float32
      const auto from_low = static_cast<float>(static_cast<double>(b) * step);
      edges[b] = static_cast<float>(double{from_low} + low);
    }
    edges[n] = high;
    for (std::size_t b = 0; b < n; ++b) centres[b] = (edges[b] + edges[b + 1]) / 2;
    // The last of `places` that is no larger than v: guessed, then looked at.
    const float bins = 1 / step, last = static_cast<float>(n - 1);
    const auto below = [&](const std::vector<float>& places, float v) {
      const float guess = (v - places[0]) * bins;
      auto at = !(guess < last) ? n - 1 : static_cast<std::size_t>(std::max(guess, 0.f));
      while (at + 1 < n && places[at + 1] <= v) ++at;
      while (at > 0 && places[at] > v) --at;
      return at;
    };
    std::vector<double> share(n);
    const float* v = counted.const_data_ptr<float>();
    for (std::int64_t i = 0; i < counted.numel(); ++i) ++share[below(edges, v[i])];
    for (std::size_t b = 1; b < n; ++b) share[b] += share[b - 1];
    const double first = share.front(), range = share.back() - first;
    for (double& s : share)
      s = range == 0 ? s * p.min : (s - first) / range * (p.max - p.min) + p.min;
    const at::Tensor out = at::empty_like(x);
    float* to = out.mutable_data_ptr<float>();
    const float* from = x.const_data_ptr<float>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::size_t b = below(centres, from[i]);
      double y = share[b];
      if (b + 1 < n && from[i] > centres[b])
        y += (share[b + 1] - share[b]) / (double{centres[b + 1]} - centres[b]) *
             (double{from[i]} - centres[b]);
      to[i] = static_cast<float>(y);
    }
    return out;
  }
};

const Register<HistogramNormalize> registered;

}  // namespace
}  // namespace sluice
