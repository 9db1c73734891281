// The weight gradient in bfloat16 by AMX's tiles; direct_conv_grad.cpp takes it where a shape fills
// them.
//
//   dW[t][a][b] = sum over j of U_f[j][a] V[j - shift_t][b]
//
// where U_f holds every s-th position of U from f on (f and shift from tap t: k - pad = s shift +
// f). A plane of either is one long row: its rows follow each other with zeros between, so that a
// shift in y and x is one number, and products are full however short the rows are. Blocks of 32
// positions of U, 16 channels each, are the left sides; V stands in words of two positions, once
// from an even and once from an odd one on, so that the right side of any shift is a tile that lies
// in one piece.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/net/conv_spec.h"

namespace sluice {

// Whether the tiles would be full enough; the gradient (as direct_weight_grad's).
bool tile_weight_grad_fits(const ConvSpec& spec);
at::Tensor tile_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad);

}  // namespace sluice
