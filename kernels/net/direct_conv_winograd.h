// Convolutions of float32 whose kernel has three to five numbers along x, with about half of the
// products (Winograd's F(4, 3), F(3, 4) and F(2, 5); Lavin, Gray 2016, along one axis): a tile of
// four outputs takes six products of the input's and the kernel's six sums, where it would take
// twelve; two outputs of a kernel of five take six, not ten.
//
//   out = A' [ (G w) . (B' in) ]        . : product by product, then summed over taps and channels
//   dw  = G' [ (A dout) . (B' in) ]     the same form, turned round
//
//   in ──B'──▶ six images, a number a tile ──a Gather each, kernel z x y x 1──▶ six ──A'──▶ out
//
// Invariant: sums are a Gather's and of one order, so results depend on no number of threads. Their
// error is some times that of the sums in full: about 1e-6 of the largest output.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/net/direct_conv.h"

namespace sluice {

class WinogradGather {
 public:
  // As Gather's, where winograd_fits.
  WinogradGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products);
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out) const;

 private:
  Size3 kernel_, pad_;
  std::vector<Gather> of_;  // of the six sums
};

// Whether that is quicker: numbers of float32, a step of one, and channels enough to pay for sums.
bool winograd_fits(const ConvSpec& spec, at::ScalarType type);
// Whether so few of a weight's numbers are zero that its sums have as few.
bool is_dense(const at::Tensor& weight);

// As direct_weight_grad's.
at::Tensor winograd_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                Products products);

}  // namespace sluice
