// What MONAI's intensity transforms are as operations of a job (augment_job.h), from their
// parameters. No tensors here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/augment/augment_job.h"
#include "kernels/base/intensity_math.h"

namespace sluice::kernels {

// NormalizeIntensity. What is not given is measured: over the image, or each channel.
struct Normalization {
  std::optional<std::vector<double>> subtrahend, divisor;  // one number, or one a channel
  bool nonzero = false, channel_wise = false;

  static std::size_t count(const std::optional<std::vector<double>>& v) {
    return v ? v->size() : 0;
  }
  bool measures() const { return !subtrahend || !divisor; }
  bool lists() const { return count(subtrahend) > 1 || count(divisor) > 1; }
};

// One operation, or one a channel where numbers are listed.
inline std::vector<AugmentOp> ops_of(const Normalization& n, std::int64_t channels) {
  const auto of = [](const std::vector<double>& v, std::int32_t c) {
    return v[v.size() == 1 ? 0 : static_cast<std::size_t>(c)];
  };
  std::vector<AugmentOp> out;
  for (std::int32_t c = 0; c < (n.lists() ? channels : 1); ++c) {
    const double std = n.divisor ? of(*n.divisor, c) : 1;
    AugmentOp op{n.measures() ? AugmentKind::standardize : AugmentKind::normalize};
    op.channel = n.lists() ? c : n.channel_wise ? each_channel : all_channels;
    op.a[0] = static_cast<float>(n.subtrahend ? of(*n.subtrahend, c) : 0);
    op.a[1] = static_cast<float>(std == 0 ? 1 : std);
    op.a[2] = n.nonzero;
    op.a[3] = !n.subtrahend;
    op.a[4] = !n.divisor;
    out.push_back(op);
  }
  return out;
}

// ScaleIntensity from a range that was measured: low == high says flat.
inline Rescale onto(std::optional<double> minv, std::optional<double> maxv, float low, float high) {
  Rescale r;
  if (low == high) {
    r.gain = static_cast<float>(minv.value_or(1));
    return r;
  }
  r.low = low;
  r.range = high - low;
  if (minv && maxv) {
    r.gain = static_cast<float>(*maxv - *minv);
    r.offset = static_cast<float>(*minv);
  }
  return r;
}
// The same as an operation, which measures. Without both bounds: x (1 + factor).
inline AugmentOp scale_op(std::optional<double> minv, std::optional<double> maxv,
                          std::optional<double> factor, bool channel_wise) {
  if (!minv && !maxv)
    return {AugmentKind::linear, all_channels, {static_cast<float>(1 + factor.value_or(0)), 0}};
  AugmentOp op{AugmentKind::to_range, channel_wise ? each_channel : all_channels};
  const Rescale unit = onto(minv, maxv, 0, 1);
  op.a[0] = unit.gain;
  op.a[1] = unit.offset;
  op.a[2] = onto(minv, maxv, 0, 0).gain;
  return op;
}

inline AugmentOp rescale_op(const Rescale& r) {
  return {AugmentKind::rescale, all_channels, {r.low, r.range, r.gain, r.offset, r.least, r.most}};
}

}  // namespace sluice::kernels
