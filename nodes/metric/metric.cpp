#include "nodes/metric/metric.h"

#include <ATen/ATen.h>

namespace sluice {

void RowMetric::flush(Flush& end) {
  report(end);
  clear();
}

void RowMetric::save(State& state) const {
  state.values = {{"classes", classes_}, {"first", first_}};
  if (count() > 0) state.tensors["rows"] = at::tensor(rows_, at::kDouble).view({count(), width_});
}

void RowMetric::load(const State& state) {
  clear();
  merge(state);
}

void RowMetric::merge(const State& part) {
  const auto found = part.tensors.find("rows");
  if (found == part.tensors.end()) return;
  const at::Tensor rows = found->second.contiguous();
  const double* row = rows.const_data_ptr<double>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += rows.size(1))
    append({row, row + rows.size(1)}, part.values.at("classes"), part.values.at("first"),
           "another part");
}

void RowMetric::append(const std::vector<double>& row, std::int64_t classes, std::int64_t first,
                       const std::string& name) {
  const auto& names = common().class_names;
  if (!names.empty() && std::ssize(names) != classes)
    throw Error(Exit::usage, "class_names has " + std::to_string(names.size()) + " names for " +
                                 std::to_string(classes) + " classes");
  const bool same = classes == classes_ && first == first_ && std::ssize(row) == width_;
  if (!rows_.empty() && !same)
    throw DataError(name + ": " + std::to_string(classes) + " classes, unlike the samples before");
  classes_ = classes;
  first_ = first;
  width_ = std::ssize(row);
  rows_.insert(rows_.end(), row.begin(), row.end());
}

std::string RowMetric::class_metric(std::int64_t c) const {
  const auto& names = common().class_names;
  return "class_" + (names.empty() ? std::to_string(c) : names[static_cast<std::size_t>(c)]);
}

void RowMetric::clear() {
  rows_.clear();
  classes_ = first_ = width_ = 0;
}

}  // namespace sluice
