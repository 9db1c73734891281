#include "tools/nnunet/value_counts.h"

#include <algorithm>
#include <cmath>

namespace sluice::nnunet {

static constexpr std::size_t few = 1 << 16;  // are not worth a sort

void compact(std::vector<ValueCounts::Count>& counts) {
  std::sort(counts.begin(), counts.end(),
            [](const auto& a, const auto& b) { return a.value < b.value; });
  std::size_t n = 0;
  for (const auto& c : counts)
    if (n > 0 && counts[n - 1].value == c.value)
      counts[n - 1].times += c.times;
    else
      counts[n++] = c;
  counts.resize(n);
  counts.shrink_to_fit();
}

void ValueCounts::add(const std::vector<Count>& counts) {
  for (const Count& c : counts) draws_ += c.times;
  counts_.insert(counts_.end(), counts.begin(), counts.end());
  if (counts_.size() < 2 * compacted_ + few) return;
  compact(counts_);
  compacted_ = counts_.size();
}

float ValueCounts::at(std::uint64_t draw) const {
  for (const Count& c : counts_) {
    if (draw < c.times) return c.value;
    draw -= c.times;
  }
  return counts_.back().value;
}

double ValueCounts::percentile(double q) const {
  const double place = static_cast<double>(draws_ - 1) * (q / 100), t = place - std::floor(place);
  const auto below = static_cast<std::uint64_t>(place);
  const double a = at(below), b = at(std::min(below + 1, draws_ - 1));
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

Intensities ValueCounts::statistics() {
  compact(counts_);
  compacted_ = counts_.size();
  if (draws_ == 0) return {};
  const auto n = static_cast<double>(draws_);
  double sum = 0, squares = 0;
  for (const Count& c : counts_) sum += static_cast<double>(c.value) * c.times;
  const double mean = sum / n;
  for (const Count& c : counts_) squares += (c.value - mean) * (c.value - mean) * c.times;
  const auto f = [](double v) { return static_cast<double>(static_cast<float>(v)); };
  return {.max = counts_.back().value,
          .mean = f(mean),
          .median = f(percentile(50)),
          .min = counts_.front().value,
          .percentile_00_5 = f(percentile(0.5)),
          .percentile_99_5 = f(percentile(99.5)),
          .std = f(std::sqrt(squares / n))};
}

}  // namespace sluice::nnunet
