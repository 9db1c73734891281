// Which weights of a convolution are zero and stay so: chosen once, by magnitude.
//
//   vector  16 output channels x 1 tap x 2 input channels are kept or left out as one: what a step
//   of
//           the direct convolution does (direct_conv.h), so time goes down with the kept share
//           (vector-wise sparsity, Zhu et al. 2019; Tan et al. 2022)
//   2:4     two of four along the input channels, which sparse tensor cores take
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/net/conv_spec.h"

namespace sluice {

class Net;

struct Sparsity {
  enum class Pattern : std::uint8_t { none, vector, two_of_four } pattern = Pattern::none;
  double keep = 0.5;  // of vectors
};

// Vectors: at least 16 outputs and 8 inputs; 2:4: inputs in fours. Groups do not fit.
bool fits(const ConvSpec& spec, const Sparsity& rule);

// A network's convolutions, each weight once: those that the pattern fits, and how many it does
// not.
struct Sparse {
  struct Weight {
    int parameter;
    ConvSpec spec;
  };
  std::vector<Weight> weights;
  std::int64_t dense = 0;
};
Sparse sparse_weights(const Net& net, const Sparsity& rule);

// 1 where the weight is kept, uint8 in its shape.
at::Tensor sparsity_mask(const at::Tensor& weight, const ConvSpec& spec, const Sparsity& rule);

}  // namespace sluice
