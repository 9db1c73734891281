// What resample_to_match and spatial_resample share: a field brought onto another grid.
#pragma once

#include "kernels/image/axes.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {

// `volume` is the field's; `target` and `size` are the new grid's, of as many axes.
inline void resample_onto(Field& field, const at::Tensor& volume, std::int64_t axes,
                          const Affine& target, const Shape3& size, const Sampling& how,
                          const char* name) {
  const Affine source = of_axes(field.geometry().affine, axes), goal = of_axes(target, axes);
  const Affine m = solve(source, goal);
  constexpr double same = 1e-3;  // MONAI's AFFINE_TOL
  at::Tensor t = volume;
  if (shape_of(volume) != size || !(near(source, goal, same) || near(m, identity_affine, same)))
    t = resample(volume, how.align_corners ? on_aligned_grid(m, shape_of(volume), size) : m, size,
                 how);
  else if (how.mode == Interpolation::linear)
    t = volume.to(at::kFloat);
  record(field, from_volume(t, axes), target, name, with_sampling({}, how));
}

}  // namespace sluice
