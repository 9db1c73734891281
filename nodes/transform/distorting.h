// What grid_distortion and rand_grid_distortion share: a volume stretched cell by cell.
#pragma once

#include "kernels/image/distortion.h"
#include "kernels/image/resample.h"
#include "kernels/image/separable.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {

// steps: of each axis a factor a cell, and one more.
inline at::Tensor distorted(const at::Tensor& volume, std::int64_t axes,
                            const std::vector<std::vector<double>>& steps, const Sampling& how) {
  const Shape3 n = shape_of(volume);
  const bool nearest = how.mode == Interpolation::nearest;
  Bands bands;
  Picks picks;
  for (std::size_t d = 0; d < 3; ++d) {
    bands[d] = keep_axis(n[d]);
    picks[d] = pick_axis(n[d]);
    if (d >= static_cast<std::size_t>(axes)) continue;
    const std::vector<double> at = distorted_axis(n[d], steps[d]);
    if (nearest)
      picks[d] = nearest_axis(n[d], at, how.padding);
    else
      bands[d] = sample_axis(n[d], at, how.padding);
  }
  return nearest ? pick(volume, picks) : map_axes(volume, bands);
}

// No affine describes it. values: the factors of all axes.
inline void record_distorted(Field& field, const at::Tensor& volume, std::int64_t axes,
                             const std::vector<std::vector<double>>& steps, const Sampling& how,
                             const char* name) {
  std::vector<double> values;
  for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d)
    values.insert(values.end(), steps[d].begin(), steps[d].end());
  record(field, from_volume(distorted(volume, axes, steps, how), axes), field.geometry().affine,
         name, std::move(values));
}

}  // namespace sluice
