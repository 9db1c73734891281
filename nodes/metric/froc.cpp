// froc: MONAI's free-response receiver operating characteristic of detected points.
#include <ATen/Functions.h>

#include <algorithm>

#include "nodes/fields.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct FrocParams : MetricParams {
  std::string coords_key = "coords";
  std::vector<double> eval_thresholds{0.25, 0.5, 1, 2, 4, 8};
};

struct Froc final : RowMetric {
  using Params = FrocParams;
  Params p;

  static Spec spec() {
    Spec s("froc",
           "The mean sensitivity of detected points at given numbers of false positives an image, "
           "over an epoch's images. Metrics: mean.");
    return add_metric_params<Params>(
               s,
               "Probabilities [points], and the targets' label map: 0 is none, 1, 2, ... one each.")
        .param("coords_key", &Params::coords_key, "Field with the points' voxels, [points, axes].")
        .param("eval_thresholds", &Params::eval_thresholds, "False positives an image.")
        .length(1)
        .reports({"mean"})
        .takes("@keys", Form::any, 0)
        .takes("@coords_key", Form::any, 0);
  }

 private:
  // A row is a false positive, a target with its highest probability (0: not found), or an image.
  enum Kind : std::uint8_t { false_positive, target, image };

  const MetricParams& common() const override { return p; }

  void add(const Sample& sample) override {
    const at::Tensor probs = sample.tensor(p.keys[0]).detach().to(at::kCPU, at::kDouble).flatten();
    const at::Tensor coords = sample.tensor(p.coords_key).to(at::kCPU, at::kLong);
    at::Tensor mask = sample.tensor(p.keys[1]).to(at::kCPU, at::kLong);
    const std::int64_t points = probs.numel();
    if (coords.dim() == 2 && mask.dim() == coords.size(1) + 1 && mask.size(0) == 1) mask = mask[0];
    if (coords.dim() != 2 || coords.size(0) != points || coords.size(1) != mask.dim())
      throw DataError(sample.name + ": " + list_text(probs.sizes()) + " probabilities, points " +
                      list_text(coords.sizes()) + " and a label map " + list_text(mask.sizes()) +
                      " do not fit");
    std::vector<double> best(static_cast<std::size_t>(mask.max().item<std::int64_t>()), 0.0);
    for (std::int64_t i = 0; i < points; ++i) {
      at::Tensor at = mask;
      for (std::int64_t d = 0; d < coords.size(1); ++d) {
        const auto x = coords[i][d].item<std::int64_t>();
        if (x < 0 || x >= at.size(0))
          throw DataError(sample.name + ": point " + std::to_string(i) +
                          " lies outside of the label map");
        at = at[x];
      }
      const auto label = at.item<std::int64_t>();
      const double probability = probs[i].item<double>();
      if (label <= 0) {
        append({static_cast<double>(false_positive), probability}, 0, 0, sample.name);
        continue;
      }
      double& highest = best[static_cast<std::size_t>(label - 1)];
      highest = std::max(highest, probability);
    }
    for (const double probability : best)
      append({static_cast<double>(target), probability}, 0, 0, sample.name);
    append({static_cast<double>(image), 0}, 0, 0, sample.name);
  }

  void report(Flush& end) const override {
    double images = 0;
    std::vector<double> of[2], all;  // false positives, targets
    for (std::int64_t i = 0; i < count(); ++i) {
      const auto kind = static_cast<std::size_t>(row(i)[0]);
      if (kind == image) {
        images += 1;
        continue;
      }
      of[kind].push_back(row(i)[1]);
      all.push_back(row(i)[1]);
    }
    if (of[target].empty()) return end.metric("mean", NAN);
    std::sort(all.begin(), all.end(), std::greater<>());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (!all.empty()) all.pop_back();  // MONAI leaves the lowest threshold out
    // From no detection on, the curve of rising false positives.
    std::vector<double> x{0}, y{0};
    for (const double threshold : all) {
      const auto above = [&](const std::vector<double>& v) {
        return static_cast<double>(
            std::count_if(v.begin(), v.end(), [&](double p) { return p >= threshold; }));
      };
      x.push_back(above(of[false_positive]) / images);
      y.push_back(above(of[target]) / static_cast<double>(of[target].size()));
    }
    Mean mean;
    for (const double wanted : p.eval_thresholds) mean.add(at_position(x, y, wanted));
    end.metric("mean", mean.value());
  }

  // The line through (x, y), x rising; the last of equal x counts.
  static double at_position(const std::vector<double>& x, const std::vector<double>& y, double at) {
    const auto after = std::upper_bound(x.begin(), x.end(), at);
    const auto i = static_cast<std::size_t>(after - x.begin());
    if (i == 0 || i == x.size()) return i == 0 ? y.front() : y.back();
    return y[i - 1] + (y[i] - y[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]);
  }
};

const Register<Froc> registered;

}  // namespace
}  // namespace sluice
