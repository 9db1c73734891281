// Convolutions whose kernel has three numbers or more along y and x, with a quarter of the products
// (Winograd's F(4 x 4, 3 x 3), F(3 x 3, 4 x 4) and F(2 x 2, 5 x 5); Lavin, Gray 2016): a tile of 16
// outputs takes 36 products of the input's and the kernel's sums (winograd_axis.h), where it would
// take 144; four outputs of a kernel of five take 36, not 100.
//
//   out = A' [ (G w G') . (B' in B) ] A     . : product by product, summed over z and channels
//
//   dw = G' [ (A dout A') . (B' in B) ] G   the same form, turned round
//
//   in ──B'──▶ 36 images, a number a tile ──36 products of matrices──▶ 36 images ──A'──▶ out
//
// Images are made plane by plane, for some rows of tiles, so that the second-level cache holds them
// from their making to their reading; planes that a kernel's next position along z reads again stay
// in a ring.
//
// Images of bfloat16 have their sums in float32: bfloat16's numbers have too few digits for sums of
// sums, and a quarter of the products as float32 takes less time than all of them as pairs
// (AVX512_BF16). AMX's tiles are quicker than either.
//
// A dilated kernel sees as many images as its dilation along each axis, one between the other. A
// kernel of more than five numbers is several of three or four, whose outputs are added up: seven
// along both axes take 12.25 products, not 49.
//
// Invariant: every output is summed in one order, and a weight's gradient chunk by chunk, so
// results depend on no number of threads. Their error is near 1e-6 of the largest output, as that
// of the sums in full.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_planes.h"

namespace sluice {

class WinogradGather {
 public:
  // As Gather's, where winograd_fits.
  WinogradGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
                 at::ScalarType type);
  // `group`: the images' channels are several groups of the convolution's, of which it does one.
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out, std::int64_t group = 0) const;

 private:
  // Three to five of the kernel's numbers along y and x.
  class Part {
   public:
    Part(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
         at::ScalarType type);
    // `adds`: to the numbers that are there.
    void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
             at::Tensor& out, std::int64_t group, bool adds) const;

   private:
    void pack(const at::Tensor& weight, bool adjoint);
    template <class T, class O>
    void run_as(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                at::Tensor& out, std::int64_t group, bool adds) const;

    Products products_;
    Size3 kernel_, pad_, dilation_;
    std::int64_t in_channels_, out_channels_;
    std::int64_t of_one_;    // weights of one of the sums
    Buffer<float> weights_;  // [sum][group of vectors][z][channel][vector][16]
  };
  std::vector<Part> parts_;
  std::int64_t out_channels_;
};

// Whether that is quicker: numbers of float32 or, without AMX, bfloat16, a step of one, and
// channels enough to pay for sums.
bool winograd_fits(const ConvSpec& spec, at::ScalarType type, Products products);
// Whether it is for this weight ({}: of no zeros) and size of the result ({}: a large one), the
// same for any number of samples: not where most of its vectors are zero, which a list
// (direct_conv.h) passes over, nor for an image of few voxels.
bool winograd_pays(const ConvSpec& spec, at::ScalarType type, Products products,
                   const at::Tensor& weight, at::IntArrayRef out);

// The same for the weight's gradient from an output's.
bool winograd_grad_pays(const ConvSpec& spec, const at::Tensor& grad, Products products);

// As direct_weight_grad's.
at::Tensor winograd_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                                Products products, std::int64_t group = 0);

}  // namespace sluice
