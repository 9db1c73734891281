// Label maps from class scores, and how two of them overlap.
//
// Invariant: one pass over the voxels and no one-hot tensor; on the CPU, on the calling thread.
// What lies on a device stays there for argmax, and is counted as class indices on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::kernels {

// The index of the largest channel, the first of equal ones: [C, ...] -> [1, ...] uint8; C <= 256.
at::Tensor argmax_channels(const at::Tensor& scores);
// The same for each member of a batch, [N, C, ...] -> [N, 1, ...].
at::Tensor argmax_members(const at::Tensor& scores);

// The same over axis `dim`, on any device. LibTorch makes eight bytes of each voxel's class before
// there is one, so it is asked for about so many voxels at a time.
at::Tensor argmax_in_parts(const at::Tensor& scores, std::int64_t dim,
                           std::int64_t voxels = 1 << 24);

// One channel a class, [C, ...] of any dtype, set where it is not 0 -> [1, ...] uint8 of the class
// that is set, on the host. Nothing where a voxel that counts has none or several; `counts`: bool
// [...], or undefined: all do.
std::optional<at::Tensor> one_hot_classes(const at::Tensor& hot, const at::Tensor& counts = {});

// from[i] becomes to[i] (of equal ones the last), and any other value `others`, or stays; of any
// dtype, as `type`, on the host. Like LibTorch's eq and masked_fill for each, in one pass.
at::Tensor map_labels(const at::Tensor& map, const std::vector<double>& from,
                      const std::vector<double>& to, at::ScalarType type,
                      std::optional<double> others = {});

// Where a map of any dtype is `value`: bool, on the host. Where it is not 0: set_mask.
at::Tensor class_mask(const at::Tensor& map, std::int64_t value);
at::Tensor set_mask(const at::Tensor& map);

// Voxels of each class: in both maps, in the prediction, in the truth.
struct Overlap {
  std::vector<std::int64_t> both, pred, truth;
};

// `pred` [C, ...] are scores where C > 1, else class indices like `truth` [1, ...]; any dtype.
// A DataError names the first value that is not one of the classes 0 .. classes - 1.
Overlap class_overlap(const at::Tensor& pred, const at::Tensor& truth, std::int64_t classes);

// One map a channel, [C, ...] each; a voxel is in where it is not 0.
Overlap channel_overlap(const at::Tensor& pred, const at::Tensor& truth);

}  // namespace sluice::kernels
