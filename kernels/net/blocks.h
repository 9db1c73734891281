// MONAI's blocks of convolutions, under MONAI's names: a block's parameters are named as in
// monai.networks.blocks 1.6.1.
#pragma once

#include "kernels/net/ops.h"

namespace sluice {

struct Act {
  enum class Kind {
    relu,
    leaky_relu,
    prelu,
    gelu,
    swish,
    elu,
    relu6,
    selu,
    sigmoid,
    tanh,
    mish,
    celu,
    softmax,
    logsoftmax
  } kind = Kind::relu;
  // leaky_relu: the slope; prelu: the first slope; elu, celu, swish: alpha; softmax, logsoftmax:
  // the axis, below 0 from the last
  double number = 0;
  bool channels = false;     // prelu: a slope for each
  std::int64_t slopes = 1;   // prelu: how many were asked for, 1 or one a channel
  bool approximate = false;  // gelu: by tanh
};
Value act(const Scope& s, const Value& x, const Act& o);

// Activation, dropout and norm in an order; what is not set is left out.
struct Adn {
  std::string ordering = "NDA";  // of any of these letters, in either case
  std::optional<NormOptions> norm = {};
  std::optional<Act> act = {};
  double dropout = 0;
};
Value adn(const Scope& s, const Value& x, const Adn& o);  // NAME.A, NAME.N

struct ConvolutionOptions {
  PerAxis strides = 1, kernel_size = 3;
  Adn adn = {};
  bool bias = true, conv_only = false, is_transposed = false;
  std::optional<PerAxis> padding = {};         // (kernel_size - 1) / 2, times the dilation
  std::optional<PerAxis> output_padding = {};  // of a transposed one: strides - 1
  Init init = {}, bias_init = {};
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
};
Value convolution(const Scope& s, const Value& x, std::int64_t out, const ConvolutionOptions& o);

struct ResidualUnitOptions {
  PerAxis strides = 1, kernel_size = 3;
  std::int64_t subunits = 2;
  Adn adn = {};
  bool bias = true, last_conv_only = false;
  std::int64_t dilation = 1;
};
Value residual_unit(const Scope& s, const Value& x, std::int64_t out, const ResidualUnitOptions& o);

// Of nnU-Net: DynUNet's and UNETR's blocks.
struct UnetBlockOptions {
  PerAxis kernel_size = 3, stride = 1;
  NormOptions norm = {.kind = Norm::instance, .affine = false};
  Act act = {Act::Kind::leaky_relu, 0.01};
  double dropout = 0;
  bool residual = false;  // UnetResBlock instead of UnetBasicBlock
  Init init = {}, bias_init = {};
};
Value unet_block(const Scope& s, const Value& x, std::int64_t out, const UnetBlockOptions& o);
// A convolution alone, as in these blocks: get_conv_layer.
Value conv_layer(const Scope& s, const Value& x, std::int64_t out, const UnetBlockOptions& o,
                 bool bias = false, bool transposed = false);
// Up by its kernel, beside the skip, a basic or residual block: UnetUpBlock, UnetrUpBlock.
Value unet_up_block(const Scope& s, const Value& x, const Value& skip, std::int64_t out,
                    const PerAxis& upsample_kernel_size, const UnetBlockOptions& o,
                    bool trans_bias = false);

// Squeeze and excitation as EfficientNet has it: NAME._se_reduce, NAME._se_expand.
Value squeeze_excite(const Scope& s, const Value& x, std::int64_t squeezed, const Init& init);

// Max beside average pooling: twice the channels.
Value max_avg_pool(const Value& x, const PoolOptions& o = {});
// x + x relu(fc.2(leaky_relu(fc.0(means of channels)))), ResidualSELayer: NAME.fc.0, NAME.fc.2.
Value residual_se_layer(const Scope& s, const Value& x, std::int64_t r = 2);

// Convolutions of several dilations beside each other, then one of a voxel: NAME.convs.I,
// NAME.conv_k1. It makes out * dilations.size() channels.
struct SimpleAsppOptions {
  std::vector<std::int64_t> kernel_sizes{1, 3, 3, 3}, dilations{1, 2, 4, 6};
  Adn adn = {.norm = NormOptions{}, .act = Act{Act::Kind::leaky_relu, 0.01}};
  bool bias = false;
};
Value simple_aspp(const Scope& s, const Value& x, std::int64_t out,
                  const SimpleAsppOptions& o = {});

// ---- transformers -------------------------------------------------------------------------------

struct VitOptions {
  std::vector<std::int64_t> img_size, patch;  // by axis
  std::int64_t hidden = 768, mlp = 3072, layers = 12, heads = 12;
  std::string proj_type = "conv";            // or "perceptron"
  std::string pos_embed_type = "learnable";  // ..., from zero: "none"; constant: "sincos"
  bool qkv_bias = false, class_token = false;
  double dropout = 0;
  std::vector<std::int64_t> grid() const;  // of patches
};
struct Vit {
  Value out;
  Values hidden;  // after each layer
};
Vit vit(const Scope& s, const Value& x, const VitOptions& o);
// Its parts: patches as tokens with what their places add, NAME.patch_embeddings ...; one layer.
Value patch_embedding(const Scope& s, const Value& x, const VitOptions& o);
Value transformer_block(const Scope& s, const Value& x, const VitOptions& o);
// Tokens with what their places in `o`'s grid add, NAME: trained, or a constant.
Value add_positions(const Scope& s, const std::string& name, const Value& x, const VitOptions& o);
// An image's voxels as tokens [N, T, C], and such as the image of their grid.
Value to_tokens(const Value& image);
Value to_image(const Value& tokens, const std::vector<std::int64_t>& grid);

}  // namespace sluice
