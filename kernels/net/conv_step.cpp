#include "kernels/net/conv_step.h"

#include <ATen/ATen.h>

#include "kernels/net/direct_conv.h"
#include "kernels/net/norm_act.h"

namespace sluice {
namespace {

// Either the two gathers of the direct convolutions or a weight for LibTorch's.
struct ConvWeights {
  std::optional<Gather> forward, adjoint;
  Products products{};  // of the gathers
  at::Tensor cast;
};
const ConvWeights& weights_of(const Frame& f, const Step& s) {
  return *static_cast<const ConvWeights*>(f.replica->prepared[s.number].get());
}

// What LibTorch computes a convolution of `x` in. oneDNN's in 16 bits read memory that nobody wrote
// where outputs are one voxel wide (forward and gradients of weights, grouped and not,
// oneDNN 3.10).
at::ScalarType type_of_product(const at::Tensor& x) {
  const bool narrow = x.device().is_cpu() && x.size(-1) <= 4;
  return narrow && at::isReducedFloatingType(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

// Whether LibTorch's gradient of the weight is quicker: few positions meet many weights
// (tools/bench/convolutions.cpp). In 16 bits it is not to be had, as above.
bool torch_weight_grad_pays(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                            const at::Tensor& weight) {
  const at::Tensor& small = spec.transposed ? x : grad;
  return x.scalar_type() == at::kFloat && spec.groups == 1 && weight.numel() >= 1 << 19 &&
         small.numel() / (small.size(0) * small.size(1)) <= 256;
}

}  // namespace

// Each voxel of the smaller side (input of a transposed one, else output) meets the whole kernel.
Step::Product ConvStep::product(const Size& input) const {
  const Size size = spec.transposed ? input : conv_output_size(spec, input);
  Product p{static_cast<double>(spec.in / spec.groups * spec.out * size[0]), spec.in, spec.out};
  for (std::size_t i = 0; i < spec.kernel.size(); ++i)
    p.multiply_adds *= static_cast<double>(spec.kernel[i] * size[i + 2]);
  return p;
}

at::Tensor as_laid_out(const at::Tensor& t, at::MemoryFormat layout) {
  if (layout == at::MemoryFormat::ChannelsLast3d)
    return t.as_strided(t.sizes(), c10::get_channels_last_strides_3d(t.sizes()));
  if (layout == at::MemoryFormat::ChannelsLast)
    return t.as_strided(t.sizes(), c10::get_channels_last_strides_2d(t.sizes()));
  return t;
}

at::Tensor torch_convolution(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias, const ConvSpec& spec,
                             at::IntArrayRef dilation) {
  const at::ScalarType type = type_of_product(x);
  const auto b = bias ? std::optional<at::Tensor>(bias->to(type)) : std::nullopt;
  return at::convolution(x.to(type), weight.to(type), b, spec.stride, spec.padding, dilation,
                         spec.transposed, spec.output_padding, spec.groups)
      .to(x.scalar_type());
}

std::shared_ptr<const void> ConvStep::prepare(const Preparation& pass) const {
  auto w = std::make_shared<ConvWeights>();
  const Net& p = pass.net;
  const auto products = products_for(p.compute);
  if (pass.cpu && p.channels_last && products && has_direct_conv(spec)) {
    w->products = *products;
    w->forward.emplace(spec, pass.weights[weight], false, *products, p.compute);
    if (pass.keep) w->adjoint.emplace(spec, pass.weights[weight], true, *products, p.compute);
  } else {
    w->cast = p.laid_out(pass.weights[weight].to(p.compute));
    if (!pass.cpu) w->cast = as_laid_out(w->cast, p.layout(w->cast.sizes().size()));
  }
  return w;
}

at::Tensor ConvStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const ConvWeights& w = weights_of(f, *this);
  if (w.forward) {
    // A network's output stays in float32, as it was summed, and goes where it belongs.
    at::Tensor y = f.result_of(output);
    if (!y.defined())
      y = at::empty(conv_output_size(spec, x.sizes()), x.options(), channels_last_of(x));
    w.forward->run(x, bias >= 0 ? f.weight(bias) : at::Tensor(), residual(f), y);
    return y;
  }
  const auto b = bias >= 0 ? std::optional<at::Tensor>(f.weight(bias)) : std::nullopt;
  const std::vector<std::int64_t> dilation(spec.kernel.size(), 1);
  at::Tensor y = f.net->laid_out(torch_convolution(x, w.cast, b, spec, dilation));
  if (inputs.size() > 1) y.add_(f.values[inputs[1]]);
  return y;
}

// A gradient that another step has left for the input is added in the same pass.
void ConvStep::input_grad(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  at::Tensor dx = at::empty_like(x);
  weights_of(f, *this).adjoint->run(grad, {}, f.grads[inputs[0]], dx);
  f.grads[inputs[0]] = dx;
}

void ConvStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const ConvWeights& w = weights_of(f, *this);
  const bool wanted = f.wants[inputs[0]];
  const auto by_torch = [&](const at::Tensor& of, bool input) {
    const at::ScalarType type = type_of_product(x);
    const std::vector<std::int64_t> dilation(spec.kernel.size(), 1);
    auto [dx, dw, db] = at::convolution_backward(
        grad.to(type), x.to(type), of.to(type), std::nullopt, spec.stride, spec.padding, dilation,
        spec.transposed, spec.output_padding, spec.groups, {input, true, false});
    return std::pair(std::move(dx), dw.contiguous());
  };
  if (w.adjoint) {
    f.add_parameter_grad(weight, torch_weight_grad_pays(spec, x, grad, f.weight(weight))
                                     ? by_torch(f.weight(weight), false).second
                                     : direct_weight_grad(spec, x, grad, w.products));
    if (wanted) input_grad(f, grad);
  } else {
    const auto [dx, dw] = by_torch(w.cast, wanted);
    f.add_parameter_grad(weight, dw);
    if (wanted) f.add_grad(inputs[0], f.net->laid_out(dx.to(x.scalar_type())));
  }
  if (bias >= 0) f.add_parameter_grad(bias, channel_sums(grad));
  if (silent_bias >= 0) f.add_parameter_grad(silent_bias, at::zeros_like(f.weight(silent_bias)));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

Attributes ConvStep::attributes() const {
  Attributes all{{"out", spec.out}, {"kernel", spec.kernel}, {"stride", spec.stride}};
  all.emplace_back("padding", spec.padding);
  if (spec.transposed) all.emplace_back("output_padding", spec.output_padding);
  if (spec.groups > 1) all.emplace_back("groups", spec.groups);
  all.emplace_back("bias", bias >= 0);
  if (inputs.size() > 1) all.emplace_back("residual", true);
  return all;
}

std::vector<int> ConvStep::parameters() const {
  std::vector<int> all{weight};
  for (const int p : {bias, silent_bias})
    if (p >= 0) all.push_back(p);
  return all;
}

}  // namespace sluice
