#include "nodes/metric/case_metric.h"

#include <algorithm>

#include "engine/base/csv.h"
#include "engine/group/ranks.h"
#include "kernels/files/file_io.h"
#include "nodes/fields.h"
#include "nodes/is_batch.h"

namespace sluice {

void CaseMetricBase::open(const OpenContext& context) {
  if (context.out_dir.empty() || (context.ranks && context.ranks->world.rank > 0)) return;
  std::string name = context.node;
  std::replace(name.begin(), name.end(), '/', '.');
  table_ = context.out_dir / "cases" / (name + ".csv");
}

void CaseMetricBase::add(const Sample& sample) {
  const auto& keys = common().keys;
  const at::Tensor pred = batched(sample, keys[0]), truth = batched(sample, keys[1]);
  if (pred.size(0) != truth.size(0) || pred.sizes().slice(2) != truth.sizes().slice(2) ||
      !channels_fit(pred.size(1), truth.size(1)))
    throw DataError("the prediction " + list_text(pred.sizes()) + " and the label " +
                    list_text(truth.sizes()) + " do not fit" +
                    as_vector(keys[1], sample.tensor(keys[1]), sample.tensor(keys[0])));
  const auto& meta = sample.at(keys[1]).meta;
  for (std::int64_t n = 0; n < pred.size(0); ++n) {
    const bool each = std::ssize(meta) == pred.size(0);
    const Case given{pred[n],
                     truth[n],
                     meta[each ? static_cast<std::size_t>(n) : 0].get(),
                     sample.name + (pred.size(0) > 1 ? " (member " + std::to_string(n) + ")" : ""),
                     {}};
    Row found;
    try {
      found = row(prepared(given));
    } catch (const DataError& e) {
      if (pred.size(0) == 1) throw;
      throw DataError("member " + std::to_string(n) + ": " + e.what());
    }
    const auto values = static_cast<std::int64_t>(found.values.size() / numbers());
    const std::int64_t classes = found.by_class ? found.first + values : 0;
    append(found.values, classes, found.first, given.name);
  }
}

at::Tensor CaseMetricBase::batched(const Sample& sample, const std::string& key) const {
  const at::Tensor& t = sample.tensor(key);
  const std::string hint = as_vector(key, t, sample.tensor(common().keys[0]));
  return is_batch(sample.at(key), key, common().spatial_dims, hint) ? t : t.unsqueeze(0);
}

// What is reduced to one metric: a mean for each of its numbers.
using Means = std::vector<Mean>;

void CaseMetricBase::report(Flush& end) const {
  if (!table_.empty() && count() > 0) write_cases();
  const std::string& how = common().reduction;
  const bool sums = how.starts_with("sum"), by_case = how.ends_with("_channel");
  const auto put = [&](const std::string& name, const Means& means) {
    std::vector<double> reduced;
    for (const Mean& m : means) reduced.push_back(sums ? m.sum : m.value());
    end.metric(name, metric_of(reduced.data()));
    if (common().get_not_nans) end.metric(name + "_not_nans", means[0].count);
  };
  const std::size_t each = numbers();
  Means all(each);
  std::vector<Means> columns(static_cast<std::size_t>(width()) / each, all), cases;
  for (std::int64_t i = 0; i < count(); ++i) {
    Means here(each);
    for (std::size_t k = 0; k < each; ++k) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        here[k].add(row(i)[c * each + k]);
        columns[c][k].add(row(i)[c * each + k]);
      }
      sums ? all[k].add(here[k].sum, here[k].count) : all[k].add(here[k].value());
    }
    cases.push_back(std::move(here));
  }
  if (how == "mean" || how == "sum") put(how, all);
  const auto class_of = [&](std::size_t c) {
    return class_metric(first() + static_cast<std::int64_t>(c));
  };
  if (how != "none" && !by_case && classes() > 0)
    for (std::size_t c = 0; c < columns.size(); ++c) put(class_of(c), columns[c]);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = "case_" + std::to_string(i);
    if (by_case) put(name, cases[i]);
    for (std::size_t c = 0; c < columns.size() && how == "none"; ++c) {
      std::string of_class = name;
      if (classes() > 0) of_class.append("_").append(class_of(c));
      end.metric(of_class, metric_of(row(static_cast<std::int64_t>(i)) + c * each));
    }
  }
}

void CaseMetricBase::write_cases() const {
  const auto each = static_cast<std::int64_t>(numbers()), columns = width() / each;
  std::string text = "case";
  for (std::int64_t c = 0; c < columns; ++c)
    text.append(",").append(classes() > 0 ? csv_field(class_metric(first() + c)) : "value");
  for (std::int64_t i = 0; i < count(); ++i) {
    text.append("\n").append(csv_field(name(i)));
    for (std::int64_t c = 0; c < columns; ++c) {
      const double value = metric_of(row(i) + c * each);
      text.append(",").append(std::isnan(value)   ? ""
                              : std::isinf(value) ? value > 0 ? "inf" : "-inf"
                                                  : Json(value).dump());
    }
  }
  text.append("\n");
  // The run's folder may have been taken away, and is not made again.
  std::error_code said_by_the_writer;
  std::filesystem::create_directory(table_.parent_path(), said_by_the_writer);
  write_file_there(table_, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

}  // namespace sluice
