// Whole numbers of 8 bits for convolutions: what values a network's convolutions read, counted over
// samples, and the scale that each of them is rounded with.
//
//   q = clamp(round(x / scale) + zero_point)
//
// Invariant: a Range is the same whatever the order of what it saw, so it does not depend on
// threads: its bins are as wide as a power of two, and two of them become one where a larger number
// comes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace sluice {
class Net;
class Step;
}  // namespace sluice

namespace sluice::onnx {

// The weight of the convolution that a step is; "": it is another one.
std::string convolved_with(const Net& net, const Step& step);

// From -127 to 127, of zero point 0; else from 0 to 255.
struct Scale {
  double scale = 1;
  std::int64_t zero_point = 0;
};

class Range {
 public:
  void add(const at::Tensor& values);
  bool saw_nan() const { return nan_; }
  bool empty() const { return !any_; }
  bool only_zeros() const { return !nan_ && low_ == 0 && high_ == 0; }
  float low() const { return low_; }
  float high() const { return high_; }
  // The magnitude that numbers are cut at: the largest; that below which 99.99 % of them lie; or
  // the one with the least squared error, when they are rounded with its scale.
  enum class Method { minmax, percentile, mse };
  double bound(Method method, bool symmetric) const;
  // Of numbers that are cut at this magnitude.
  Scale scale(double bound, bool symmetric) const;

 private:
  static constexpr int bins = 2048;
  using Counts = std::array<std::int64_t, bins>;  // of magnitudes, 0 .. width_

  void widen(float magnitude);
  double percentile() const;
  double least_error(bool symmetric) const;
  double squared_error(const Scale& s, bool symmetric) const;

  Counts above_{}, below_{};  // of numbers from 0 on, and below
  double width_ = 0x1p-24;    // of all bins
  float low_ = 0, high_ = 0;  // zero is always there: padding is
  bool nan_ = false, any_ = false;
};

Scale scale_of(const Range& range, Range::Method method, bool symmetric);

// By the weight of the convolution that reads the value.
struct Scales {
  bool symmetric = true;
  std::map<std::string, Scale> values;
};

}  // namespace sluice::onnx
