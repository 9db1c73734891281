// numpy's and Python's numbers, to the last bit: a plan has to round as nnU-Net rounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice::nnunet {

// Python's round(): halves to even.
inline double round_even(double x) { return std::nearbyint(x); }

// numpy.percentile(values, q) with method "linear"; q from 0 to 100.
inline double percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = static_cast<double>(values.size() - 1) * (q / 100);
  const auto below = static_cast<std::size_t>(at);
  const double t = at - std::floor(at);
  const double a = values[below], b = values[std::min(below + 1, values.size() - 1)];
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

// numpy.median
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

inline double product(const std::vector<double>& values) {
  double all = 1;
  for (const double v : values) all *= v;
  return all;
}

}  // namespace sluice::nnunet
