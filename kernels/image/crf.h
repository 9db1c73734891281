// A fully connected conditional random field by mean-field iterations (Kraehenbuehl, Koltun 2011;
// MONAI's CRF), with the exact gradient to the logits on LibTorch's tape.
//
//   q = softmax(logits);  repeat:  m = bilateral part + Gaussian part of q, mixed by compatibility
//                                  q = softmax(logits + update_factor m)
//
// Invariant: the two lattices are built once; a voxel's own message is part of what it gets.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

struct CrfRule {
  std::int64_t iterations = 5;  // 0: softmax
  double bilateral_weight = 1, gaussian_weight = 1;
  double bilateral_spatial_sigma = 5, bilateral_color_sigma = 0.5;  // voxels, the image's units
  double gaussian_spatial_sigma = 5, update_factor = 3;
  at::Tensor compatibility;  // [K, K]; undefined: the identity
};

// logits [B, K, ...], image [B, C, ...] of the same extents and type -> probabilities [B, K, ...].
at::Tensor crf(const at::Tensor& logits, const at::Tensor& image, const CrfRule& rule);

}  // namespace sluice
