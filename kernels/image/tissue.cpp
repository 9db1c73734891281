#include "kernels/image/tissue.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "kernels/image/components.h"
#include "kernels/image/distance.h"

namespace sluice {
namespace {

struct Bins {
  std::vector<float> counts;  // scikit-image counts in float32
  std::vector<double> centres;
};

Bins one_a_value(const at::Tensor& values) {
  Bins bins;
  std::array<std::int64_t, 256> counts{};
  const auto* v = values.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) ++counts[v[i]];
  const auto filled = [](std::int64_t n) { return n > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), filled);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), filled).base();
  for (auto at = first; at != last; ++at) {
    bins.counts.push_back(static_cast<float>(*at));
    bins.centres.push_back(static_cast<double>(at - counts.begin()));
  }
  return bins;
}

// As numpy.histogram: by a quotient, then moved by one where the bin's edges say otherwise.
Bins equal_bins(const at::Tensor& values, double low, double high) {
  constexpr std::size_t n = 256;
  std::vector<double> edges(n + 1);
  const double step = (high - low) / n;
  for (std::size_t i = 0; i <= n; ++i) edges[i] = low + static_cast<double>(i) * step;
  edges[n] = high;
  std::array<std::int64_t, n> counts{};
  const auto* v = values.const_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    auto bin = std::min(static_cast<std::size_t>((v[i] - low) * (n / (high - low))), n - 1);
    if (v[i] < edges[bin])
      --bin;
    else if (v[i] >= edges[bin + 1] && bin != n - 1)
      ++bin;
    ++counts[bin];
  }
  Bins bins;
  for (std::size_t i = 0; i < n; ++i) {
    bins.counts.push_back(static_cast<float>(counts[i]));
    bins.centres.push_back((edges[i] + edges[i + 1]) / 2);
  }
  return bins;
}

// Red, green, blue in 0..1 to hue, saturation and value (skimage.color.rgb2hsv).
at::Tensor hsv_of(const at::Tensor& rgb) {
  const at::Tensor high = rgb.amax(0), range = high - rgb.amin(0);
  const at::Tensor flat = range.eq(0), one = at::ones_like(range);
  const at::Tensor by = at::where(flat, one, range);
  const at::Tensor saturation =
      at::where(flat, at::zeros_like(range), range / at::where(flat, one, high));
  // The last of equal channels says which sixth of the circle it is.
  at::Tensor hue = at::where(rgb[0].eq(high), (rgb[1] - rgb[2]) / by, at::zeros_like(range));
  hue = at::where(rgb[1].eq(high), 2 + (rgb[2] - rgb[0]) / by, hue);
  hue = at::where(rgb[2].eq(high), 4 + (rgb[0] - rgb[1]) / by, hue);
  hue = at::where(flat, at::zeros_like(range), (hue / 6).remainder(1));
  return at::stack({hue, saturation, high});
}

}  // namespace

double otsu_threshold(const at::Tensor& given) {
  const at::Tensor values =
      given.scalar_type() == at::kByte ? given.contiguous() : given.to(at::kDouble).contiguous();
  const auto low = values.min().item<double>(), high = values.max().item<double>();
  if (low == high) return low;
  const Bins bins =
      values.scalar_type() == at::kByte ? one_a_value(values) : equal_bins(values, low, high);
  const std::size_t n = bins.counts.size();
  // Weights and means of what is up to each bin, and of what is from it on.
  std::vector<float> below(n), above(n);
  std::vector<double> mean_below(n), mean_above(n);
  float weight = 0;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    weight += bins.counts[i];
    sum += static_cast<double>(bins.counts[i]) * bins.centres[i];
    below[i] = weight;
    mean_below[i] = sum / static_cast<double>(weight);
  }
  weight = 0;
  sum = 0;
  for (std::size_t i = n; i-- > 0;) {
    weight += bins.counts[i];
    sum += static_cast<double>(bins.counts[i]) * bins.centres[i];
    above[i] = weight;
    mean_above[i] = sum / static_cast<double>(weight);
  }
  std::size_t best = 0;
  double most = -1;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const double between = mean_below[i] - mean_above[i + 1];
    const double variance = static_cast<double>(below[i] * above[i + 1]) * (between * between);
    if (variance > most) {
      most = variance;
      best = i;
    }
  }
  return bins.centres[best];
}

at::Tensor foreground_mask(const at::Tensor& given,
                           const std::array<TissueThreshold, 6>& thresholds, bool invert) {
  const bool bytes = given.scalar_type() == at::kByte;
  const at::Tensor image = invert ? (bytes ? 255 - given : 1 - given) : given;
  const auto part = [&](const at::Tensor& channels, std::size_t first, bool dark) {
    at::Tensor found;
    for (std::size_t c = 0; c < 3; ++c) {
      const TissueThreshold& t = thresholds[first + c];
      const at::Tensor channel = channels[static_cast<std::int64_t>(c)];
      const double value = t.otsu ? otsu_threshold(channel) : t.value;
      if (value == 0) {
        if (t.otsu && !found.defined()) found = at::zeros_like(channel, at::kBool);
        continue;
      }
      const at::Tensor here = dark ? channel.le(value) : channel.gt(value);
      found = found.defined() ? found.logical_or(here) : here;
    }
    return found;
  };
  const at::Tensor rgb = part(image, 0, true);
  const bool by_hsv = std::any_of(thresholds.begin() + 3, thresholds.end(),
                                  [](const auto& t) { return t.otsu || t.value != 0; });
  at::Tensor mask = rgb;
  if (by_hsv) {
    const at::Tensor unit = bytes ? image.to(at::kDouble) / 255 : image;
    const at::Tensor hsv = part(hsv_of(unit), 3, false);
    mask = rgb.defined() ? rgb.logical_and(hsv) : hsv;
  }
  if (!mask.defined())
    throw DataError("a foreground mask needs a threshold of at least one channel");
  return mask.unsqueeze(0);
}

Detections prob_nms(const at::Tensor& map, double threshold, const std::vector<std::int64_t>& box) {
  const at::Tensor values = map.to(at::kDouble).contiguous();
  const auto* v = values.const_data_ptr<double>();
  // Those that can be taken, highest first and of equal ones the first in memory.
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < values.numel(); ++i)
    if (v[i] > threshold) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return v[a] > v[b]; });
  at::Tensor cleared = at::zeros_like(values, at::kBool);
  std::vector<double> probs;
  std::vector<std::int64_t> coords;
  for (const std::int64_t i : order) {
    if (cleared.const_data_ptr<bool>()[i]) continue;
    probs.push_back(v[i]);
    at::Tensor around = cleared;
    std::int64_t rest = i;
    std::vector<std::int64_t> at(static_cast<std::size_t>(values.dim()));
    for (std::int64_t d = values.dim(); d-- > 0; rest /= values.size(d))
      at[static_cast<std::size_t>(d)] = rest % values.size(d);
    for (std::size_t d = 0; d < at.size(); ++d) {
      const std::int64_t n = values.size(static_cast<std::int64_t>(d));
      const std::int64_t from = std::clamp(at[d] - box[d] / 2, std::int64_t{0}, n),
                         to = std::clamp(at[d] + box[d] - box[d] / 2, std::int64_t{0}, n);
      around = around.narrow(static_cast<std::int64_t>(d), from, to - from);
    }
    around.fill_(true);
    coords.insert(coords.end(), at.begin(), at.end());
  }
  return {at::tensor(probs, at::kDouble),
          at::tensor(coords, at::kLong).view({std::ssize(probs), values.dim()})};
}

Lesions find_lesions(const at::Tensor& mask, double grow, double itc) {
  const at::Tensor near = kernels::distance_to(mask.ne(0), {1, 1}).lt(grow);
  const at::Tensor filled = with_filled_holes(near.unsqueeze(2).contiguous(), 1, 2);
  const Components found = find_components(filled.to(at::kBool).contiguous(), 2);
  Lesions lesions{at::zeros(mask.sizes(), at::kLong), {}};
  auto* label = lesions.labels.mutable_data_ptr<std::int64_t>();
  const std::int64_t columns = mask.size(1);
  struct Sums {
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  };
  std::vector<Sums> sums(found.size.size());
  // A volume [X, Y, 1] has a row of one voxel for each pixel.
  for (const Components::Run& run : found.runs)
    for (std::int64_t z = run.begin; z < run.end; ++z) {
      label[run.row + z] = run.component + 1;
      Sums& s = sums[static_cast<std::size_t>(run.component)];
      const auto x = static_cast<double>(run.row / columns),
                 y = static_cast<double>(run.row % columns);
      s.n += 1, s.x += x, s.y += y, s.xx += x * x, s.yy += y * y, s.xy += x * y;
    }
  for (const Sums& s : sums) {
    // A pixel has moments of its own: 1/12 along each axis.
    const double x = s.xx / s.n - s.x * s.x / (s.n * s.n) + 1. / 12,
                 y = s.yy / s.n - s.y * s.y / (s.n * s.n) + 1. / 12,
                 xy = s.xy / s.n - s.x * s.y / (s.n * s.n);
    const double larger = (x + y) / 2 + std::sqrt((x - y) * (x - y) / 4 + xy * xy);
    lesions.isolated.push_back(4 * std::sqrt(larger) < itc);
  }
  return lesions;
}

}  // namespace sluice
