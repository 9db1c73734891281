// Where the windows of a volume begin, and how much each of their voxels counts. No tensors here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// Along one axis of `size` >= `window`. MONAI's: one every window (1 - overlap), the last shifted
// back to fit. nnU-Net's ("even"): as many as that takes, spread evenly.
std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t window, double overlap,
                                        bool even = false);

// Where all windows begin, the last axis quickest. `overlap`: one an axis; the last counts for
// missing ones, and DataError where there is none.
std::vector<std::vector<std::int64_t>> window_places(const std::vector<std::int64_t>& size,
                                                     const std::vector<std::int64_t>& window,
                                                     const std::vector<double>& overlap, bool even);

// A voxel's weight is the product of its axes' weights, at least `least`; no axes: 1 everywhere.
struct WindowWeights {
  std::vector<std::vector<float>> axes;
  float least = 0;
};
// `mode`: "constant"; "gaussian", MONAI's, nowhere below 1e-3 or its own smallest
// value; "nnunet", nnU-Net's: a unit impulse in the middle, smoothed with deviations of
// sigma_scale windows, the largest weight 10, zeros replaced by the smallest other one. `half`:
// what is summed up is rounded to float16.
WindowWeights window_weights(const std::vector<std::int64_t>& size, const std::string& mode,
                             const std::vector<double>& sigma_scale, bool half = false);

}  // namespace sluice
