// The operations that networks are written with. Those with loops of their own first, then what is
// one line over LibTorch (see Value::op for more).
#pragma once

#include "kernels/net/builder.h"
#include "kernels/net/norm_step.h"
#include "kernels/net/value.h"

namespace sluice {

struct ConvOptions {
  PerAxis kernel = 3, stride = 1;
  std::optional<PerAxis> padding;  // (kernel - 1) / 2, times the dilation
  PerAxis output_padding = 0;
  std::int64_t groups = 1;
  PerAxis dilation = 1;  // of a transposed one nothing else
  bool transposed = false, bias = true;
  // A norm reads it that takes the bias away again: the bias need not be computed with.
  bool normed = false;
  Init init = {}, bias_init = {};
};
// NAME.weight and NAME.bias.
Value conv(const Scope& s, const Value& x, std::int64_t out, const ConvOptions& o = {});

struct NormOptions {
  Norm kind = Norm::batch;
  bool affine = true;  // NAME.weight and NAME.bias
  double eps = 1e-5, momentum = 0.1;
  std::int64_t groups = 1;  // of group norm
  Init weight_init = Init::fill(1);
};
Value norm(const Scope& s, const Value& x, const NormOptions& o = {});
Value relu(const Value& x);
Value leaky_relu(const Value& x, double slope);
Value prelu(const Scope& s, const Value& x, double first = 0.25);  // NAME.weight, one for all
Value prelu_channels(const Scope& s, const Value& x, double first = 0.25);  // ... one a channel

Value dropout(const Value& x, double p);  // of single numbers
// Of whole channels. Several in a network need numbers of their own, or they drop the same ones.
Value dropout_channels(const Value& x, double p, std::uint64_t number = 0);
Value dropout_samples(const Value& x, double p);  // "drop connect", "drop path"
// Drawn from the standard normal distribution; `at_rest` if not training.
Value normals(const Value& like, double at_rest = 0);

// Numbers of `count` tokens of each sample: drawn, in training or not.
Value chosen_tokens(const Value& x, std::int64_t count);

Value add(const Value& x, const Value& y);
inline Value operator+(const Value& x, const Value& y) { return add(x, y); }
Value concat(const Values& all);  // along the channels

struct PoolOptions {
  PerAxis kernel = 2;
  std::optional<PerAxis> stride;  // the kernel
  PerAxis padding = 0;            // avg_pool: zeros, which count
};
Value max_pool(const Value& x, const PoolOptions& o = {});
Value avg_pool(const Value& x, const PoolOptions& o = {});
Value global_avg_pool(const Value& x);  // [N, C]
// All axes but the first; `voxels`: the product of the spatial ones.
Value flatten(const Value& x, std::int64_t voxels);
Value doubled(const Value& x);  // every extent, by linear interpolation

struct LinearOptions {
  bool bias = true;
  Init init = {}, bias_init = {};
};
// Of [N, C] and of tokens: NAME.weight and NAME.bias.
Value linear(const Scope& s, const Value& x, std::int64_t out, const LinearOptions& o = {});

// ---- LibTorch's ---------------------------------------------------------------------------------

Value gelu(const Value& x);
Value silu(const Value& x);
Value sigmoid(const Value& x);
Value channel_means(const Value& x);               // an image of one voxel
Value product(const Value& x, const Value& y);     // numbers of [N, C] count for a whole channel
Value layer_norm(const Scope& s, const Value& x);  // of tokens, over C: NAME.weight and NAME.bias
Value resized(const Value& x, const Value& like);  // to its extents, by the nearest voxel
// Spatial axes first to last, {before, after} each.
Value padded(const Value& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& pads);

}  // namespace sluice
