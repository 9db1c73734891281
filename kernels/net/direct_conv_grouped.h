// Convolutions whose groups have some channels each. They are dense convolutions of as many groups
// at a time as fill a vector, a bundle, with zeros where one group would read another's channels: a
// vector of four groups costs what a vector of one group of four channels would, a quarter full.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/net/direct_conv.h"
#include "kernels/net/direct_conv_winograd.h"

namespace sluice {

// Groups of four channels or more on either side.
bool is_grouped(const ConvSpec& spec);
// The dense convolution of a bundle of groups.
ConvSpec bundle_of(const ConvSpec& spec);

// As Gather (direct_conv.h).
class GroupedGather {
 public:
  GroupedGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
                at::ScalarType type, at::IntArrayRef out);
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out) const;

 private:
  std::int64_t in_, out_;  // channels of a bundle
  // One of these has all bundles.
  std::vector<WinogradGather> winograd_;
  std::vector<Gather> gathers_;
};

// As direct_weight_grad().
at::Tensor grouped_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                               Products products);

}  // namespace sluice
