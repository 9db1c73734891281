// Direct convolutions (direct_conv.h) whose results have few channels, by planes: 16 positions of
// one channel fill a vector, where 16 channels of one position would be mostly zeros.
//
//   plane of channel c:   row 0 | border | row 1 | border | ...      one after the other
//   out[co][p] = sum over taps t and channels c of W[co][c][t] in[c][p + offset_t]
//
// Positions p run on over the ends of rows, so that a vector is full whatever a row's length; what
// is computed at borders goes nowhere. Float32 numbers, or bfloat16 ones computed as such.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv_micro.h"

namespace sluice {

class PlaneGather {
 public:
  // Whether planes are quicker: a map to few channels, from positions that follow each other.
  static bool fits(const ConvSpec& spec, bool adjoint, Products products);
  // As Gather's.
  PlaneGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
              at::ScalarType type);
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out) const;

 private:
  struct Tap {
    Size3 offset;
    std::int64_t channel;
  };
  struct Class {  // the outputs of one residue
    Size3 residue{};
    std::vector<Tap> taps;
    std::vector<float> weights;  // [tap][output channel]
  };
  template <class T>
  struct Job;
  template <class T>
  void run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
               at::Tensor& out) const;

  Products products_;
  at::ScalarType type_;
  std::int64_t in_channels_, out_channels_;
  Size3 out_step_, low_{}, high_{};  // low, high: extreme offsets
  std::vector<Class> classes_;
};

// Whether the gradient of the weight is quicker by planes; the gradient (as direct_weight_grad's).
bool plane_weight_grad_fits(const ConvSpec& spec, Products products);
at::Tensor plane_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                             Products products);

}  // namespace sluice
