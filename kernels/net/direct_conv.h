// Convolutions of thin networks, computed directly from channels-last images in float32 or bfloat16
// with float32 sums: forward, and backward by data and by weight, plain and transposed, any stride
// and kernel, in 2-D and 3-D. Where the processor has no products of bfloat16, its numbers are
// multiplied as float32.
//
// All of them are one form. A *gather* makes each output from inputs at fixed offsets; a transposed
// convolution is one gather for each residue of the output position by the stride:
//
//   out[os j + r] = sum over taps t of W[t] in[is j + offset_t]
//
// Three numbers or more along y and x take a quarter of the products (direct_conv_winograd.h).
//
// Three channels would fill three of a vector's sixteen lanes. Float32 goes by planes then
// (direct_conv_planes.h); else neighbouring outputs along x share a vector, with weights in a band:
//
//   inputs    x0 x1 x2 x3 x4        lanes (x1 c0)(x1 c1)(x1 c2)(x2 c0)(x2 c1)(x2 c2)...
//
// Weights with many zeros are a list: of each 16 outputs, the words that any of them weighs with
// something else than zero, in the rectangle's order. The loop walks the list, so its time goes
// with the list's length (sparsity.h's vectors are made for it).
//
// Invariant: every output is summed by one thread in one order; weight gradients are summed sample
// by sample. Results do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/cpu.h"
#include "kernels/base/buffer.h"
#include "kernels/net/conv_spec.h"
#include "kernels/net/direct_conv_depthwise.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_planes.h"

namespace sluice {

// How this processor, or one of that level, multiplies numbers of this type; nothing: LibTorch
// does.
std::optional<Products> products_for(at::ScalarType type, CpuLevel level = cpu_level());

// Whether there are loops for it. They are LibTorch's equals or better but for a few of thick
// layers (tools/bench/convolutions.cpp), whose gradients in bfloat16 are not to be had of oneDNN:
// it reads memory that nobody wrote where an image is two voxels wide.
// Dilated ones, and groups of several channels, have loops where their tiles are Winograd's; such
// groups too where bfloat16 is multiplied as float32.
bool has_direct_conv(const ConvSpec& spec, at::ScalarType type);

class GroupedGather;
class WinogradGather;

// A gather with its weights packed for it.
class Gather {
 public:
  // The convolution's own map (`adjoint` false), or the map from output's to input's gradient.
  // Weights for products of bfloat16 numbers are rounded to such, however they are computed with.
  // `out`: the result's size, where it is known.
  Gather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
         at::ScalarType type, at::IntArrayRef out = {});

  // in [N, C, ...], channels-last of the given type -> out, channels-last of that type or float32,
  // its size given by the tensor. `bias` float32 and `residual` (as in) may be undefined.
  void run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
           at::Tensor& out) const;

 private:
  struct Class {  // the outputs of one residue
    Size3 residue{};
    std::vector<int> z, y;          // offsets of the rows that taps read
    int x = 0;                      // first offset along x
    int words = 0;                  // of input values, from there on
    int together = 0;               // of these in one product of tiles; 0: not by tiles
    Buffer<std::uint32_t> weights;  // [group of vectors][z][y][word][vector][lane]
    std::int64_t weight_words = 0;
    // Of a list: words by vector, one vector's after the other's, and where each vector's begin.
    struct Listed {
      int row, word;
    };
    std::vector<Listed> list;
    std::vector<std::int64_t> list_begins;
    bool listed() const { return !list_begins.empty(); }
  };
  struct Pack;
  struct Position {  // a row of outputs, before it is stepped and shifted by the residue
    std::int64_t z, y;
  };
  template <class T, class C>
  struct Job;
  template <class T, class C>
  struct Block;
  bool add_class(const Size3& residue, const at::Tensor& weight, bool adjoint);
  void make_list(Class& c) const;
  template <class T, class C>
  void run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
               at::Tensor& out) const;
  template <class T, class C>
  std::vector<std::ptrdiff_t> offsets_of(const Job<T, C>& job, const Class& c) const;
  template <class T, class C>
  void run_class(const Job<T, C>& job, const Class& c, std::int64_t begin, std::int64_t end) const;
  std::int64_t planes_at_once(const Size3& need, std::int64_t planes,
                              std::int64_t plane_bytes) const;
  std::int64_t step() const;  // outputs along x from one position to the next
  std::int64_t count(const Class& c, const Size3& out_size) const;  // positions along x

  ConvSpec spec_;
  Products products_;
  at::ScalarType type_;
  MicroTile tile_;
  std::int64_t in_channels_, out_channels_;
  Size3 in_step_, out_step_, kernel_, pad_, low_{}, high_{};  // low, high: extreme offsets
  bool merged_;                                               // outputs along x share a vector
  int block_ = 1;                                             // positions j in a vector
  int lanes_ = 0, vectors_ = 0;
  std::vector<Class> classes_;
  std::optional<PlaneGather> planes_;  // or this, instead of all above
  std::optional<DepthwiseGather> depthwise_;
  std::shared_ptr<const GroupedGather> grouped_;
  std::shared_ptr<const WinogradGather> winograd_;
};

// The gradient of a convolution's weight, float32 in the weight's shape.
at::Tensor direct_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                              Products products);

// The output's size for an input's.
std::vector<std::int64_t> conv_output_size(const ConvSpec& spec, at::IntArrayRef input);

}  // namespace sluice
