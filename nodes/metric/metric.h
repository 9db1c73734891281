// What the metrics share: rows of an epoch, one a case or a sample, kept until its end.
//
// Invariant: a metric's state is its rows in stamp order, as float64; what it reports is a function
// of them. So a resumed run and one whose rows come from several parts report the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"

namespace sluice {

// Sum and mean of the values that are not NaN; the mean of none is NaN.
struct Mean {
  double sum = 0, count = 0;
  void add(double value, double times = 1) {
    if (std::isnan(value)) return;
    sum += value;
    count += times;
  }
  double value() const {
    return count != 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }
};

// NaN where there is nothing to divide by.
inline double ratio(double part, double whole) {
  return whole != 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

// Scores are put in order, or in bins, where NaN has no place.
inline void refuse_nan(const at::Tensor& scores, const std::string& sample,
                       const std::string& key) {
  if (scores.isnan().any().item<bool>())
    throw DataError(sample + ": \"" + key + "\" has scores that are NaN");
}

struct MetricParams {
  std::vector<std::string> keys{"pred", "label"}, class_names;
};

template <class Params>
Spec& add_metric_params(Spec& s, const char* keys) {
  return s.in("sample")
      .param("keys", static_cast<std::vector<std::string> Params::*>(&Params::keys), keys)
      .length(2, 2)
      .param("class_names", &Params::class_names,
             "Names for the metrics, one for each class, background included: class_Hand, ...; "
             "empty: numbers.")
      .ordered()
      .merges()
      .any_device();
}

class RowMetric : public Node {
 public:
  void process(Firing& f) final {
    f.when_done([this, &f] {
      add(f.in());
      places_.resize(static_cast<std::size_t>(count()), place_of(f.stamp()));
    });
  }
  void flush(Flush& end) final;
  void save(State& state) const final;
  void load(const State& state) final;
  void merge(const State& part) final;

 protected:
  virtual void add(const Sample& sample) = 0;  // by append()
  virtual void report(Flush& end) const = 0;   // of all rows
  virtual const MetricParams& common() const = 0;

  // `classes`: of the case, background included; `first`: that of the row's first value.
  void append(const std::vector<double>& row, std::int64_t classes, std::int64_t first,
              const std::string& name);

  std::int64_t count() const { return width_ > 0 ? std::ssize(rows_) / width_ : 0; }
  std::int64_t width() const { return width_; }
  std::int64_t classes() const { return classes_; }
  std::int64_t first() const { return first_; }
  const double* row(std::int64_t i) const { return rows_.data() + i * width_; }
  const std::string& name(std::int64_t i) const { return names_[static_cast<std::size_t>(i)]; }

  // "class_plane", or "class_3" where no names are given.
  std::string class_metric(std::int64_t c) const;

 private:
  void clear();
  void sort();

  // Index and path of the stamp that a row is of: what its rows are ordered by.
  using Place = std::array<std::int64_t, 1 + Stamp::max_depth>;
  static Place place_of(const Stamp& stamp);

  std::vector<double> rows_;
  std::vector<std::string> names_;
  std::vector<Place> places_;
  std::int64_t classes_ = 0, first_ = 0, width_ = 0;
};

}  // namespace sluice
