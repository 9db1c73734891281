// Tissue and lesions on slides: where there is something to look at, and what was marked there.
//
// Invariant: numbers are scikit-image's and SciPy's, as MONAI's pathology calls them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// A channel's threshold: a number, Otsu's of the image itself, or none.
struct TissueThreshold {
  bool otsu = false;
  double value = 0;  // 0: none, as in MONAI
};

// Otsu's threshold (skimage.filters.threshold_otsu 0.25): of uint8 values one bin a value, of
// others 256 bins between the least and the greatest.
double otsu_threshold(const at::Tensor& values);

// MONAI's ForegroundMask of an image [3, X, Y], uint8 0..255 or float 0..1: bool [1, X, Y]. Dark in
// any of red, green and blue (at most the threshold), and above it in any of hue, saturation and
// value; of the two parts, those that have a threshold. `thresholds`: R, G, B, H, S, V.
at::Tensor foreground_mask(const at::Tensor& image,
                           const std::array<TissueThreshold, 6>& thresholds, bool invert);

// MONAI's ProbNMS of a map [X, Y(, Z)]: while the highest probability is above the threshold, it is
// taken and the box around it is cleared; of equal ones the first. `lower` voxels before it go and
// `upper` from it on. [points], float64, and [points, axes], int64.
struct Detections {
  at::Tensor probs, coords;
};
Detections prob_nms(const at::Tensor& map, double threshold, const std::vector<std::int64_t>& box);

// Lesions of a binary mask [X, Y], nonzero inside: grown by less than `grow` pixels, holes filled,
// numbered by 8-connected components (MONAI's compute_multi_instance_mask), int64; and whether each
// one's major axis (4 times the root of the larger second moment) is below `itc`: isolated tumour
// cells, which do not count.
struct Lesions {
  at::Tensor labels;
  std::vector<bool> isolated;  // of label 1, 2, ...
};
Lesions find_lesions(const at::Tensor& mask, double grow, double itc);

}  // namespace sluice
