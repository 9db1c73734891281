// Boxes of detection, [N, 2 axes]: MONAI's modes, and what becomes of boxes when their image is
// moved. Corners are in voxels (or mm), the end exclusive.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kernels/image/spatial.h"

namespace sluice {

// xyxy, xyzxyz (the standard mode: all least corners, then all largest), xxyy, xxyyzz, xyxyzz, and
// xywh, xyzwhd (corner and extents), ccwh, cccwhd (centre and extents).
inline const std::vector<std::string> box_modes{"xyxy", "xyzxyz", "xxyy", "xxyyzz", "xyxyzz",
                                                "xywh", "xyzwhd", "ccwh", "cccwhd"};

// The axes of boxes; a DataError where they are not [N, 4] or [N, 6].
std::int64_t box_axes(const at::Tensor& boxes, const std::string& key);

// From a mode to the standard one and back; a DataError where the mode is for other axes.
at::Tensor to_standard_boxes(const at::Tensor& boxes, const std::string& mode);
at::Tensor from_standard_boxes(const at::Tensor& boxes, const std::string& mode);

// The rest is of boxes in the standard mode.

// The corners [N, 4, 2] or [N, 8, 3], counter-clockwise, the least z first.
at::Tensor box_corners(const at::Tensor& boxes);
// The box around each of [N, P, axes].
at::Tensor boxes_around(const at::Tensor& points);

at::Tensor affine_boxes(const at::Tensor& boxes, const Affine& affine);
// As reorder() moves the voxels of an image of `shape`.
at::Tensor reorder_boxes(const at::Tensor& boxes, const Reorder& r, const Shape3& shape);

// Cut to [start, end) and counted from there; `keep` says which of them are one voxel wide at
// least.
struct CroppedBoxes {
  at::Tensor boxes, keep;
};
CroppedBoxes crop_boxes(const at::Tensor& boxes, const Shape3& start, const Shape3& end);

// int16 [N, shape...]: where box n is, labels[n], else `background`; without boxes one such
// channel. `ellipse`: the ellipse within the box alone.
at::Tensor box_masks(const at::Tensor& boxes, const at::Tensor& labels,
                     const std::vector<std::int64_t>& shape, std::int64_t background, bool ellipse);

}  // namespace sluice
