// What froc and lesion_froc share: the free-response receiver operating characteristic of detected
// points over an epoch's images, as MONAI's compute_froc_curve_data and compute_froc_score.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>

#include "nodes/fields.h"
#include "nodes/metric/curve_file.h"
#include "nodes/metric/metric.h"

namespace sluice {

struct FrocParams : MetricParams {
  std::string coords_key = "coords";
  std::vector<double> eval_thresholds{0.25, 0.5, 1, 2, 4, 8};
};

template <class Params>
Spec& add_froc_params(Spec& s, const char* keys) {
  return add_metric_params<Params>(s, keys)
      .param("coords_key", &Params::coords_key, "Field with the points' voxels, [points, axes].")
      .param("eval_thresholds", &Params::eval_thresholds, "False positives an image.")
      .length(1)
      .reports({"mean"})
      .takes("@coords_key", Form::any, 0);
}

class FrocMetric : public RowMetric {
 public:
  void open(const OpenContext& context) override { curve_.open(context); }

 protected:
  virtual const FrocParams& params() const = 0;
  const MetricParams& common() const override { return params(); }

  // Points [points, axes] with their probabilities, on a map of targets 1, 2, ... Those that are
  // `excluded` count neither as found nor as missed, and a point on one counts nowhere; as in MONAI
  // such a target makes 0 a threshold all the same.
  void add_points(const std::string& name, const at::Tensor& probs, const at::Tensor& coords,
                  const at::Tensor& labels, const std::vector<bool>& excluded = {}) {
    const std::int64_t points = probs.numel();
    if (coords.dim() != 2 || coords.size(0) != points ||
        (points > 0 && coords.size(1) != labels.dim()))
      throw DataError(name + ": " + list_text(probs.sizes()) + " probabilities, points " +
                      list_text(coords.sizes()) + " and a label map " + list_text(labels.sizes()) +
                      " do not fit");
    refuse_nan(probs, name, params().keys[0]);
    const auto targets = static_cast<std::size_t>(labels.max().item<std::int64_t>());
    std::vector<double> best(targets, 0.0);
    const at::Tensor places = coords.to(at::kLong).contiguous(),
                     map = labels.to(at::kLong).contiguous(),
                     of_points = probs.to(at::kDouble).contiguous();
    for (std::int64_t i = 0; i < points; ++i) {
      const std::int64_t* place = places.const_data_ptr<std::int64_t>() + i * map.dim();
      std::int64_t voxel = 0;
      for (std::int64_t d = 0; d < map.dim(); ++d) {
        if (place[d] < 0 || place[d] >= map.size(d))
          throw DataError(name + ": point " + std::to_string(i) + " lies outside of the label map");
        voxel = voxel * map.size(d) + place[d];
      }
      const std::int64_t label = map.const_data_ptr<std::int64_t>()[voxel];
      const double probability = of_points.const_data_ptr<double>()[i];
      if (label <= 0) {
        append({static_cast<double>(false_positive), probability}, 0, 0, name);
        continue;
      }
      double& highest = best[static_cast<std::size_t>(label - 1)];
      highest = std::max(highest, probability);
    }
    for (std::size_t t = 0; t < targets; ++t) {
      const bool counts = t >= excluded.size() || !excluded[t];
      append({static_cast<double>(counts ? target : passed_over), counts ? best[t] : 0}, 0, 0,
             name);
    }
    append({static_cast<double>(image), 0}, 0, 0, name);
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
      if (kind != passed_over) of[kind].push_back(row(i)[1]);
      all.push_back(row(i)[1]);
    }
    if (of[target].empty()) return end.metric("mean", NAN);
    std::sort(all.begin(), all.end(), std::greater<>());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (!all.empty()) all.pop_back();  // MONAI leaves the lowest threshold out
    for (std::vector<double>& kind : of) std::sort(kind.begin(), kind.end(), std::greater<>());
    // From no detection on, the curve of rising false positives.
    std::vector<double> x{0}, y{0};
    for (const double threshold : all) {
      const auto above = [&](const std::vector<double>& v) {
        return static_cast<double>(
            std::upper_bound(v.begin(), v.end(), threshold, std::greater<>()) - v.begin());
      };
      x.push_back(above(of[false_positive]) / images);
      y.push_back(above(of[target]) / static_cast<double>(of[target].size()));
    }
    Mean mean;
    for (const double wanted : params().eval_thresholds) mean.add(at_position(x, y, wanted));
    end.metric("mean", mean.value());
    curve_.write({{"kind", "froc"}, {"x", x}, {"y", y}, {"mean", mean.value()}});
  }

 private:
  // A row is a false positive, a target with its highest probability (0: not found), an image, or a
  // target that is excluded.
  enum Kind : std::uint8_t { false_positive, target, image, passed_over };

  // The line through (x, y), x rising; the last of equal x counts.
  static double at_position(const std::vector<double>& x, const std::vector<double>& y, double at) {
    const auto after = std::upper_bound(x.begin(), x.end(), at);
    const auto i = static_cast<std::size_t>(after - x.begin());
    if (i == 0 || i == x.size()) return i == 0 ? y.front() : y.back();
    return y[i - 1] + (y[i] - y[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]);
  }

  CurveFile curve_;
};

}  // namespace sluice
