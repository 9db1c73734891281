// Areas under curves of a classifier's scores, each class against the others.
#pragma once

#include "nodes/metric/curve_file.h"
#include "nodes/metric/measures.h"

namespace sluice {

struct CurveParams : MetricParams {
  std::string average = "macro";
  bool softmax = false;
};

inline Spec curve_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  add_classes_params<CurveParams>(
      s, "Scores [N, C], or [N, 1] for two classes, and classes [N], or [N, C] of 0 and 1.")
      .param("average", &CurveParams::average,
             "macro: the mean over classes; weighted: by their number of samples; micro: all "
             "pairs of sample and class at once; none: no average.")
      .choices({"macro", "weighted", "micro", "none"})
      .param("softmax", &CurveParams::softmax,
             "The scores are logits: softmax over classes first.");
  return s;
}

// A row has, of each column of scores, whether it is true, and then the scores.
class CurveMetric : public RowMetric {
 public:
  using Params = CurveParams;
  Params p;

  void open(const OpenContext& context) final { curve_.open(context); }

 protected:
  virtual double area(const std::vector<Scored>& of_class) const = 0;
  // What the report draws, {"kind": ..., "lines": ...}; null: nothing.
  virtual Json drawn(const std::vector<std::pair<std::string, std::vector<Scored>>>&) const {
    return nullptr;
  }
  const MetricParams& common() const final { return p; }

 private:
  void add(const Sample& sample) final {
    const Labelled c = labelled(sample, p.keys);
    const std::int64_t columns = c.scores.size(1);
    refuse_nan(c.scores, sample.name, p.keys[0]);
    const bool softmax = p.softmax && columns > 1;
    const at::Tensor rows =
        at::cat({c.truth.to(at::kDouble),
                 (softmax ? at::softmax(c.scores, 1) : c.scores).to(at::kDouble)},
                1)
            .contiguous();
    const double* from = rows.const_data_ptr<double>();
    for (std::int64_t n = 0; n < rows.size(0); ++n, from += 2 * columns)
      append({from, from + 2 * columns}, std::max<std::int64_t>(2, columns), 0, sample.name);
  }

  void report(Flush& end) const final {
    const std::int64_t columns = width() / 2;
    std::vector<std::pair<std::string, std::vector<Scored>>> named;
    for (std::int64_t c = 0; c < columns; ++c)
      named.emplace_back(columns > 1 ? class_metric(c) : "", pairs(c));
    if (const Json curve = drawn(named); !curve.is_null()) curve_.write(curve);
    if (columns <= 1) {
      end.metric("mean", area(pairs(0)));  // one column has nothing to average
      return;
    }
    Mean mean;
    std::vector<Scored> all;
    std::vector<double> areas;
    bool lacks = false;  // a class has no samples, or all: no mean, as MONAI's
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto of_class = pairs(c);
      areas.push_back(area(of_class));
      const auto samples = std::count_if(of_class.begin(), of_class.end(), is_positive);
      const double weight = p.average == "weighted" ? static_cast<double>(samples) : 1;
      mean.add(weight * areas.back(), weight);
      lacks = lacks || std::isnan(areas.back());
      all.insert(all.end(), of_class.begin(), of_class.end());
    }
    if (p.average == "micro") return end.metric("mean", area(all));
    if (p.average != "none") end.metric("mean", lacks ? NAN : mean.value());
    for (std::int64_t c = 0; c < columns; ++c) end.metric(class_metric(c), areas[c]);
  }

  std::vector<Scored> pairs(std::int64_t c) const {
    std::vector<Scored> all;
    for (std::int64_t n = 0; n < count(); ++n)
      all.push_back({row(n)[width() / 2 + c], row(n)[c] != 0});
    return all;
  }

  CurveFile curve_;
};

}  // namespace sluice
