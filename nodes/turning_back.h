// What invert and test_time_augmentation share: a field brought back to a grid it had.
#pragma once

#include "kernels/image/resample.h"
#include "kernels/image/spatial.h"
#include "nodes/fields.h"

namespace sluice {

// [C, ...] onto the grid of `affine` and `shape`, whose affine map the field's geometry has
// recorded; without a history. It has the axes of `shape`, also those that a transform took away.
inline Field turned_back(const Field& field, const Affine& affine,
                         const std::vector<std::int64_t>& shape, Interpolation mode) {
  Shape3 size{1, 1, 1};
  for (std::size_t d = 0; d < shape.size() && d < 3; ++d) size[d] = shape[d];
  Sampling how;
  how.mode = mode;
  const Meta& meta = field.geometry();
  at::Tensor volume = field.tensor;
  while (volume.dim() < 4) volume = volume.unsqueeze(-1);
  volume = resample(volume.contiguous(), multiply(inverse(meta.affine), affine), size, how);
  auto back = std::make_shared<Meta>(meta);
  back->affine = affine;
  back->history.clear();
  return Field(from_volume(volume, std::ssize(shape)), std::move(back));
}

}  // namespace sluice
