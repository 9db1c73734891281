// Instances in a plane or a volume: watershed from markers, and the maps that HoVerNet's
// post-processing makes of its branches (Graham et al. 2019; MONAI's pathology app).
//
// Maps are [1, X, Y(, Z)]. On the CPU, on the calling thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace sluice {

// Basins of `image` (float32) grow from the markers (int32, 0: none) where the mask (uint8) is not
// 0, lowest first. Of equal heights what was reached first goes on first, as in scikit-image, whose
// labels these are to the voxel. Neighbours differ in at most `connectivity` coordinates. int32.
at::Tensor watershed(const at::Tensor& image, const at::Tensor& markers, const at::Tensor& mask,
                     int connectivity);

// The mask (uint8) without components, whose voxels share faces, of less than `least` voxels.
at::Tensor without_small(const at::Tensor& mask, std::int64_t least);

// Where nuclei are, uint8: softmax's largest class is not 0, or the sigmoid of one channel is above
// `threshold`; without small components. With softmax a threshold has no effect.
at::Tensor nuclei_mask(const at::Tensor& logits, bool softmax, double threshold,
                       std::int64_t min_object_size);

// How much a pixel of the mask looks like an instance's border, 0 to 1: where the maps of distances
// [2, X, Y] (horizontal, vertical) jump. Throws DataError where one of them is constant.
at::Tensor instance_border(const at::Tensor& mask, const at::Tensor& hover, std::int64_t kernel);

// What watershed() floods: the smoothed inside of instances, negative.
at::Tensor nuclei_depth(const at::Tensor& mask, const at::Tensor& border);

// A number for each part of the mask that is surely inside of an instance: its border below
// `threshold`, holes filled, opened by a disk, components of `min_object_size` pixels. int32.
at::Tensor nuclei_markers(const at::Tensor& mask, const at::Tensor& border, double threshold,
                          double radius, std::int64_t min_object_size);

}  // namespace sluice
