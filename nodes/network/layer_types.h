// The types of layers that a network of "type": "layers" is made of: MONAI's blocks and PyTorch's
// layers, each with a Spec of its arguments.
#pragma once

#include "kernels/image/crf.h"
#include "kernels/image/filters.h"   // padding_names: made before whoever registers asks for types
#include "kernels/image/gaussian.h"  // gaussian_names: likewise
#include "nodes/network/built_network.h"

namespace sluice {

// What layers are told, of any type; a type's Spec says which of it.
struct LayerParams {
  std::int64_t out_channels = 1, groups = 1, subunits = 2, voxels = 1;
  std::vector<std::int64_t> kernel_size{3}, strides{1}, dilation{1}, pool_size{2};
  std::optional<std::vector<std::int64_t>> padding, output_padding, pool_strides;
  Json act = "PRELU", norm = "INSTANCE";
  std::string adn_ordering = "NDA";
  double dropout = 0;
  bool bias = true, is_transposed = false, conv_only = false, last_conv_only = false;
  bool residual = false;
  // Of up_sample.
  std::vector<std::int64_t> scale_factor{2};
  std::string up_mode = "deconv", interp_mode = "linear";
  bool pre_conv = true, align_corners = true, apply_pad_pool = true;
  // Of filters.
  std::vector<double> spatial_sigma{1}, sigma{1};
  double color_sigma = 0.5, truncated = 4;
  std::vector<std::int64_t> radius{1};
  std::int64_t size = 3, iterations = 5, window_length = 5, order = 2, axis = 2, state_size = 1;
  std::optional<std::int64_t> n;
  std::optional<std::vector<double>> sigmas;
  std::string approx = "erf", mode = "zeros";
  CrfRule crf;
};

struct LayerType {
  Spec spec;
  std::size_t least, most;  // values that it reads
  std::function<Value(const Scope&, const Values&, const LayerParams&)> make;
  bool recordable = true;  // a pass copies nothing from the host's memory (Network::recordable)
};

const std::vector<LayerType>& layer_types();
std::vector<LayerType> filter_types();  // layer_filters.cpp

}  // namespace sluice
