// Reading a volume at other places than its voxel centres: affine and deformed resampling.
//
// Invariant: an output voxel o reads the source at  to_source * (o + displacement(o)), computed
// in double for each voxel by itself; so the result depends neither on threads nor on the way
// rows are cut, and the separable path (scales and shifts only) agrees with the general one.
//
// `linear` computes in float32 and returns float32. `nearest` copies voxels of any type.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/image/affine.h"
#include "kernels/image/sampling.h"
#include "kernels/image/spatial.h"

namespace sluice {

struct Sampling {
  Interpolation mode = Interpolation::linear;
  Padding padding = Padding::border;
  bool align_corners = false;  // where reflection turns: voxel faces, or centres
  bool parallel = false;       // rows on several threads; off where volumes are run in parallel
};

// "bilinear", "nearest"; "zeros", "border", "reflection". Anything else is a DataError.
Interpolation parse_interpolation(const std::string& name);
Padding parse_padding(const std::string& name);

// Offsets in output voxels at every `step`-th voxel of the output, linear in between.
struct Displacement {
  at::Tensor nodes;  // float32 [3, a, b, c], a = ceil((X - 1) / step) + 1, ...
  int step = 1;
};

// volume [C, X, Y, Z] -> [C, shape...].
at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                    const Sampling& how);
// A box inside that result alone, the same to the bit; written into `into` where it is given.
at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                    const Sampling& how, const Box& part, const at::Tensor& into = {});
at::Tensor resample(const at::Tensor& volume, const Affine& to_source, const Displacement& by,
                    const Shape3& shape, const Sampling& how);

// The general path even where the separable one would do; the tests hold one against the other.
at::Tensor resample_general(const at::Tensor& volume, const Affine& to_source, const Shape3& shape,
                            const Sampling& how, const Box& part, const at::Tensor& into = {});
inline at::Tensor resample_general(const at::Tensor& volume, const Affine& to_source,
                                   const Shape3& shape, const Sampling& how) {
  return resample_general(volume, to_source, shape, how, {{}, shape});
}

}  // namespace sluice
