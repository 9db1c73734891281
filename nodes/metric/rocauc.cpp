// rocauc: MONAI's ROCAUCMetric, the area under the receiver operating characteristic.
#include "nodes/metric/curves.h"

namespace sluice {
namespace {

struct RocAuc final : CurveMetric {
  static Spec spec() {
    return curve_spec(
        "rocauc",
        "Area under the receiver operating characteristic over an epoch, each class against the "
        "others. Metrics: mean (the average) and class_0, class_1, ...");
  }
  double area(const std::vector<Scored>& all) const override { return area_under_curve(all); }
  // Each class's rates at its distinct scores, from the highest on: at most 200 points.
  Json drawn(const std::vector<std::pair<std::string, std::vector<Scored>>>& all) const override {
    Json lines = Json::array();
    for (const auto& [name, of_class] : all) {
      std::vector<Scored> sorted = of_class;
      std::sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.score > b.score; });
      const auto positives =
          static_cast<double>(std::count_if(sorted.begin(), sorted.end(), is_positive));
      const double negatives = static_cast<double>(sorted.size()) - positives;
      if (positives == 0 || negatives == 0) continue;
      std::vector<double> x{0}, y{0};
      double found = 0;
      for (std::size_t i = 0; i < sorted.size(); ++i) {
        found += sorted[i].positive;
        const bool last = i + 1 == sorted.size();
        if (!last && (sorted[i + 1].score == sorted[i].score || i % (sorted.size() / 200 + 1) != 0))
          continue;
        x.push_back((static_cast<double>(i + 1) - found) / negatives);
        y.push_back(found / positives);
      }
      lines.push_back({{"name", name}, {"x", x}, {"y", y}});
    }
    return {{"kind", "roc"}, {"lines", lines}};
  }
};

const Register<RocAuc> registered;

}  // namespace
}  // namespace sluice
