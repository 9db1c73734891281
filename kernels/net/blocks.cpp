#include "kernels/net/blocks.h"

#include <algorithm>
#include <cctype>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"

namespace sluice {

namespace {

// An axis of [N, C, ...] or [N, T, C]; over the batch a sample's answer would depend on the others.
std::int64_t softmax_axis(const Scope& s, const Value& x, const Act& o) {
  const std::int64_t rank = x.tokens ? 3 : x.axes + 2, dim = static_cast<std::int64_t>(o.number);
  if (dim == 0 || dim >= rank || dim <= -rank)
    s.refuse("the dim of a softmax is 1 to " + std::to_string(rank - 1) + ", or -1 to " +
             std::to_string(1 - rank) + ", found " + std::to_string(dim));
  return dim;
}

}  // namespace

Value act(const Scope& s, const Value& x, const Act& o) {
  switch (o.kind) {
    case Act::Kind::relu:
      return leaky_relu(x, 0);
    case Act::Kind::leaky_relu:
      return leaky_relu(x, o.number);
    case Act::Kind::prelu:
      if (o.slopes > 1 && o.slopes != x.channels)
        s.refuse("a prelu of num_parameters " + std::to_string(o.slopes) + " for " +
                 std::to_string(x.channels) + " channels");
      return o.channels || o.slopes > 1 ? prelu_channels(s, x, o.number) : prelu(s, x, o.number);
    case Act::Kind::gelu:
      if (!o.approximate) return gelu(x);
      return x.op("gelu", [](In t) { return at::gelu(t[0], "tanh"); },
                  {.attributes = {{"approximate", "tanh"}}});
    case Act::Kind::swish:
      if (o.number == 1) return silu(x);
      return x.op("swish", [alpha = o.number](In t) { return t[0] * at::sigmoid(alpha * t[0]); },
                  {.attributes = {{"alpha", o.number}}});
    case Act::Kind::elu:
      return x.op("elu", [alpha = o.number](In t) { return at::elu(t[0], alpha); },
                  {.attributes = {{"alpha", o.number}}});
    case Act::Kind::relu6:
      return x.op("relu6", [](In t) { return at::hardtanh(t[0], 0, 6); });
    case Act::Kind::selu:
      return x.op("selu", [](In t) { return at::selu(t[0]); });
    case Act::Kind::sigmoid:
      return sigmoid(x);
    case Act::Kind::tanh:
      return x.op("tanh", [](In t) { return at::tanh(t[0]); });
    case Act::Kind::mish:
      return x.op("mish", [](In t) { return at::mish(t[0]); });
    case Act::Kind::celu:
      return x.op("celu", [alpha = o.number](In t) { return at::celu(t[0], alpha); },
                  {.attributes = {{"alpha", o.number}}});
    case Act::Kind::softmax: {
      const std::int64_t dim = softmax_axis(s, x, o);
      return x.op("softmax", [dim](In t) { return at::softmax(t[0], dim); },
                  {.attributes = {{"dim", dim}}});
    }
    case Act::Kind::logsoftmax: {
      const std::int64_t dim = softmax_axis(s, x, o);
      return x.op("log_softmax", [dim](In t) { return at::log_softmax(t[0], dim); },
                  {.attributes = {{"dim", dim}}});
    }
  }
  return x;
}

namespace {

// Without the letters that nothing is set for.
std::string effective(const Adn& o) {
  std::string order = upper_case(o.ordering);
  if (order.find_first_not_of("ADN") != std::string::npos)
    throw Error(Exit::usage, "adn_ordering is made of A, D and N, found \"" + o.ordering + "\"");
  if (!o.norm) std::erase(order, 'N');
  if (!o.act) std::erase(order, 'A');
  if (o.dropout == 0) std::erase(order, 'D');
  return order;
}

PerAxis mapped(const PerAxis& a, int axes, const auto& function) {
  std::vector<std::int64_t> all = a.over(axes);
  for (auto& n : all) n = function(n);
  return all;
}
PerAxis mapped(const PerAxis& a, const PerAxis& b, int axes, const auto& function) {
  std::vector<std::int64_t> all = a.over(axes);
  const std::vector<std::int64_t> other = b.over(axes);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = function(all[i], other[i]);
  return all;
}

}  // namespace

Value adn(const Scope& s, const Value& x, const Adn& o) {
  Value y = x;
  for (const char letter : effective(o)) {
    if (letter == 'N') y = norm(s / "N", y, *o.norm);
    if (letter == 'D') y = dropout(y, o.dropout);
    if (letter == 'A') y = act(s / "A", y, *o.act);
  }
  return y;
}

Value convolution(const Scope& s, const Value& x, std::int64_t out, const ConvolutionOptions& o) {
  ConvOptions c{.kernel = o.kernel_size, .stride = o.strides, .padding = o.padding};
  c.transposed = o.is_transposed;
  c.bias = o.bias;
  c.normed = !o.conv_only && effective(o.adn).starts_with('N');
  c.init = o.init;
  c.bias_init = o.bias_init;
  c.groups = o.groups;
  c.dilation = o.dilation;
  if (o.is_transposed)
    c.output_padding = o.output_padding.value_or(
        mapped(o.strides, x.axes, [](std::int64_t stride) { return stride - 1; }));
  const Value y = conv(s / "conv", x, out, c);
  return o.conv_only ? y : adn(s / "adn", y, o.adn);
}

Value residual_unit(const Scope& s, const Value& x, std::int64_t out,
                    const ResidualUnitOptions& o) {
  ConvolutionOptions c{.strides = o.strides, .kernel_size = o.kernel_size, .adn = o.adn};
  c.bias = o.bias;
  c.dilation = o.dilation;
  Value y = x;
  for (std::int64_t u = 0; u < std::max<std::int64_t>(1, o.subunits); ++u) {
    c.conv_only = o.last_conv_only && u == o.subunits - 1;
    y = convolution(s / "conv" / ("unit" + std::to_string(u)), y, out, c);
    c.strides = 1;
  }
  const bool strided = !o.strides.is_one();
  if (!strided && x.channels == out) return y + x;
  ConvOptions r{.kernel = 1, .stride = o.strides, .bias = o.bias};
  if (strided) r.kernel = o.kernel_size;
  return y + conv(s / "residual", x, out, r);
}

// ---- nnU-Net ------------------------------------------------------------------------------------

Value conv_layer(const Scope& s, const Value& x, std::int64_t out, const UnetBlockOptions& o,
                 bool bias, bool transposed) {
  ConvolutionOptions c{.strides = o.stride, .kernel_size = o.kernel_size};
  c.adn.dropout = o.dropout;
  c.bias = bias;
  c.is_transposed = transposed;
  c.init = o.init;
  c.bias_init = o.bias_init;
  c.padding = mapped(o.kernel_size, o.stride, x.axes, [&](std::int64_t k, std::int64_t stride) {
    if (k + 1 < stride) s.refuse("a kernel is smaller than its stride");
    return (k - stride + 1) / 2;
  });
  c.output_padding = mapped(
      mapped(*c.padding, o.stride, x.axes, [](auto p, auto stride) { return 2 * p + stride; }),
      o.kernel_size, x.axes, [](auto sum, auto k) { return sum - k; });
  return convolution(s, x, out, c);
}

Value unet_block(const Scope& s, const Value& x, std::int64_t out, const UnetBlockOptions& o) {
  UnetBlockOptions second = o, beside = o;
  second.stride = 1;
  beside.kernel_size = 1;
  Value y = conv_layer(s / "conv1", x, out, o);
  y = act(s / "lrelu", norm(s / "norm1", y, o.norm), o.act);
  y = norm(s / "norm2", conv_layer(s / "conv2", y, out, second), o.norm);
  if (!o.residual) return act(s / "lrelu", y, o.act);
  const bool same = x.channels == out && o.stride.is_one();
  const Value r = same ? x : norm(s / "norm3", conv_layer(s / "conv3", x, out, beside), o.norm);
  return act(s / "lrelu", y + r, o.act);
}

Value unet_up_block(const Scope& s, const Value& x, const Value& skip, std::int64_t out,
                    const PerAxis& upsample_kernel_size, const UnetBlockOptions& o,
                    bool trans_bias) {
  UnetBlockOptions up = o, after = o;
  up.kernel_size = up.stride = upsample_kernel_size;
  after.stride = 1;
  const Value y = conv_layer(s / "transp_conv", x, out, up, trans_bias, true);
  return unet_block(s / "conv_block", concat({y, skip}), out, after);
}

// ---- EfficientNet -------------------------------------------------------------------------------

Value squeeze_excite(const Scope& s, const Value& x, std::int64_t squeezed, const Init& init) {
  const ConvOptions one{.kernel = 1, .init = init, .bias_init = Init::fill(0)};
  const Value y = silu(conv(s / "_se_reduce", channel_means(x), squeezed, one));
  return product(x, sigmoid(conv(s / "_se_expand", y, x.channels, one)));
}

Value max_avg_pool(const Value& x, const PoolOptions& o) {
  return concat({max_pool(x, o), avg_pool(x, o)});
}

Value residual_se_layer(const Scope& s, const Value& x, std::int64_t r) {
  if (x.channels < r) s.refuse("needs " + std::to_string(r) + " channels or more");
  const Value means = global_avg_pool(x);
  const Value squeezed = leaky_relu(linear(s / "fc.0", means, x.channels / r), 0.01);
  return x + product(x, relu(linear(s / "fc.2", squeezed, x.channels)));
}

Value simple_aspp(const Scope& s, const Value& x, std::int64_t out, const SimpleAsppOptions& o) {
  Values all;
  for (std::size_t i = 0; i < o.dilations.size(); ++i)
    all.push_back(conv(s / "convs" / static_cast<std::int64_t>(i), x, out,
                       {.kernel = o.kernel_sizes[i], .dilation = o.dilations[i]}));
  const Value y = concat(all);
  return convolution(s / "conv_k1", y, y.channels,
                     {.kernel_size = 1, .adn = o.adn, .bias = o.bias});
}

}  // namespace sluice
