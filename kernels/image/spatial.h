// Moving voxels without changing them: crops, pads, flips, permutations, and finding foreground.
//
// Invariant: volumes are contiguous [C, X, Y, Z] of any element type up to 8 bytes, and so are the
// results; none shares memory with its input. Images go through as Z = 1, signals also as Y = 1
// (to_volume). Where `into` is defined the result is written there (into.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "kernels/image/affine.h"

namespace sluice {

// [C, X, Y] -> [C, X, Y, 1], [C, X] -> [C, X, 1, 1]; a volume stays as it is. Contiguous.
at::Tensor to_volume(const at::Tensor& t);
// The way back to `axes` spatial axes.
at::Tensor from_volume(const at::Tensor& volume, std::int64_t axes);
Shape3 shape_of(const at::Tensor& volume);  // or of an image: 1 for axes that it lacks

// A picture is a volume of one voxel along z, and rows run along z. With y and z exchanged it has
// rows, in the same memory.
inline bool is_picture(const at::Tensor& volume, std::int64_t z_of_result) {
  return volume.dim() == 4 && volume.size(3) == 1 && z_of_result == 1 && volume.size(2) > 1;
}
inline at::Tensor exchanged(const at::Tensor& volume) {
  return volume.defined() ? volume.contiguous().transpose(2, 3) : volume;
}
inline Shape3 exchanged(const Shape3& s) { return {s[0], s[2], s[1]}; }

// MONAI's sizes: one number for all axes or one each; 0 and below mean "as in `shape`".
// Axes that a 2-D image does not have count as 1.
Shape3 fall_back(const std::vector<std::int64_t>& size, const Shape3& shape, std::int64_t axes);

// An axis counted from 0, or from the end where it is negative.
int spatial_axis(std::int64_t axis, std::int64_t axes);

struct Box {
  Shape3 start{};  // may be negative: what lies outside the volume is padding
  Shape3 size{};
  bool operator==(const Box&) const = default;
};
Box whole(const at::Tensor& volume);
inline Box exchanged(const Box& b) { return {exchanged(b.start), exchanged(b.size)}; }
std::vector<double> numbers(const Box& box);  // start, then size: what a history keeps of a crop
Affine box_affine(const Box& box);            // output -> source: a translation

// The box of the volume, `value` where it sticks out. A plain crop and a plain pad are both this.
at::Tensor crop_pad(const at::Tensor& volume, const Box& box, double value = 0,
                    const at::Tensor& into = {});

// MONAI's centre crop followed by its pad: `symmetric` puts half of the padding in front.
Box centre_box(const Shape3& shape, const Shape3& size, bool symmetric = true);

at::Tensor reorder(const at::Tensor& volume, const Reorder& r);
// Of a box inside the volume alone.
at::Tensor reorder(const at::Tensor& volume, const Reorder& r, const Box& box,
                   const at::Tensor& into = {});
// k quarter turns from axis a towards axis b, as torch.rot90.
Reorder quarter_turns(int k, int a, int b);

// The smallest box around the voxels that are > 0 in any channel; none where there is no such.
std::optional<Box> bounding_box_of_positive(const at::Tensor& volume);

// The start of a crop of `size` around `centre`, moved inside the volume as MONAI moves it.
// Where a size exceeds its axis, the crop starts at 0 there.
Shape3 corrected_start(const Shape3& centre, const Shape3& size, const Shape3& shape);

}  // namespace sluice
