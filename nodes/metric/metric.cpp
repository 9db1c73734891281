#include "nodes/metric/metric.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/state/packed_state.h"

namespace sluice {

void RowMetric::flush(Flush& end) {
  report(end);
  clear();
}

void RowMetric::save(State& state) const {
  state.values = {{"classes", classes_}, {"first", first_}};
  if (count() == 0) return;
  state.tensors["names"] = packed_json(names_);
  state.tensors["rows"] = at::tensor(rows_, at::kDouble).view({count(), width_});
  at::Tensor& places = state.tensors["places"];
  places = at::empty({count(), 1 + Stamp::max_depth}, at::kLong);
  std::memcpy(places.mutable_data_ptr(), places_.data(), places.nbytes());
}

void RowMetric::load(const State& state) {
  clear();
  merge(state);
}

// Rows in the order of their samples, whoever had them.
void RowMetric::merge(const State& part) {
  const auto found = part.tensors.find("rows");
  if (found == part.tensors.end()) return;
  const at::Tensor rows = found->second.contiguous();
  const double* row = rows.const_data_ptr<double>();
  const auto before = static_cast<std::size_t>(count());
  const auto packed = part.tensors.find("names");
  const Json names = packed == part.tensors.end() ? part.values.value("names", Json::array())
                                                  : unpacked_json(packed->second);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size(0)); ++i, row += rows.size(1))
    append({row, row + rows.size(1)}, part.values.at("classes"), part.values.at("first"),
           i < names.size() ? names[i].get<std::string>() : "another part");
  places_.resize(static_cast<std::size_t>(count()));
  const auto places = part.tensors.find("places");
  if (places != part.tensors.end() &&
      places->second.sizes() == at::IntArrayRef{rows.size(0), 1 + Stamp::max_depth} &&
      places->second.scalar_type() == at::kLong)
    std::memcpy(&places_[before], places->second.const_data_ptr(), places->second.nbytes());
  if (before > 0) sort();
}

void RowMetric::sort() {
  std::vector<std::int64_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return places_[static_cast<std::size_t>(a)] < places_[static_cast<std::size_t>(b)];
  });
  std::vector<double> rows;
  std::vector<std::string> names;
  std::vector<Place> places;
  for (const std::int64_t i : order) {
    rows.insert(rows.end(), row(i), row(i) + width_);
    names.push_back(name(i));
    places.push_back(places_[static_cast<std::size_t>(i)]);
  }
  rows_ = std::move(rows);
  names_ = std::move(names);
  places_ = std::move(places);
}

RowMetric::Place RowMetric::place_of(const Stamp& stamp) {
  Place p{static_cast<std::int64_t>(stamp.index)};
  std::copy(stamp.path.begin(), stamp.path.end(), p.begin() + 1);
  return p;
}

void RowMetric::append(const std::vector<double>& row, std::int64_t classes, std::int64_t first,
                       const std::string& name) {
  const auto& names = common().class_names;
  if (!names.empty() && std::ssize(names) != classes)
    throw Error(Exit::usage, "class_names has " + std::to_string(names.size()) + " names for " +
                                 std::to_string(classes) + " classes");
  const bool same = classes == classes_ && first == first_ && std::ssize(row) == width_;
  if (!rows_.empty() && !same)
    throw DataError(std::to_string(classes) + " classes, unlike the samples before");
  classes_ = classes;
  first_ = first;
  width_ = std::ssize(row);
  rows_.insert(rows_.end(), row.begin(), row.end());
  names_.push_back(name);
}

std::string RowMetric::class_metric(std::int64_t c) const {
  const auto& names = common().class_names;
  return "class_" + (names.empty() ? std::to_string(c) : names[static_cast<std::size_t>(c)]);
}

void RowMetric::clear() {
  rows_.clear();
  names_.clear();
  places_.clear();
  classes_ = first_ = width_ = 0;
}

}  // namespace sluice
