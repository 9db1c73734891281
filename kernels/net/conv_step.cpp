#include "kernels/net/conv_step.h"

#include <ATen/ATen.h>

#include "kernels/cuda/cuda_library.h"
#include "kernels/net/conv_matmul.h"
#include "kernels/net/direct_conv.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/thin_conv.h"
#include "kernels/net/windows.h"

namespace sluice {
namespace {

// What a pass computes a convolution with.
enum class ConvWay { direct, matmul, thin, torch };
struct ConvWeights {
  ConvWay way = ConvWay::torch;
  Products products{};                     // of direct ones
  at::ScalarType type{};                   // of products of matrices
  std::optional<Gather> forward, adjoint;  // theirs, where several frames share them
  at::Tensor cast;                         // thin ones', LibTorch's, and products'
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

// t with zeros behind its channels, up to so many.
at::Tensor with_channels(const at::Tensor& t, std::int64_t channels) {
  if (t.size(1) == channels) return t;
  auto size = t.sizes().vec();
  size[1] = channels;
  const auto layout = t.dim() == 3 ? at::MemoryFormat::Contiguous : channels_last_of(t);
  at::Tensor wide = at::empty(size, t.options(), layout).zero_();  // zeros() would lay it out anew
  wide.narrow(1, 0, t.size(1)).copy_(t);
  return wide;
}
// What has one channel says by its strides that it has the network's layout.
at::Tensor of_layout(const Frame& f, const at::Tensor& t) {
  return t.is_cpu() || t.size(1) > 1 ? t : as_laid_out(t.contiguous(), f.net->layout(t.dim()));
}
// A weight's channels on the side of what comes in, and of what goes out.
std::int64_t into(const at::Tensor& weight, const ConvSpec& s) {
  return s.transposed ? weight.size(0) : s.groups * weight.size(1);
}
std::int64_t out_of(const at::Tensor& weight, const ConvSpec& s) {
  return s.transposed ? s.groups * weight.size(1) : weight.size(0);
}

// By axis.
std::vector<std::int64_t> dilations_of(const ConvSpec& spec) {
  std::vector<std::int64_t> all = spec.dilation;
  all.resize(spec.kernel.size(), 1);
  return all;
}

// Tiles of a dilated convolution's outputs (direct_conv_winograd.h) would be mostly empty where it
// leaves out more than a small image has.
bool direct_conv_pays(const ConvSpec& spec, at::ScalarType type, const Step::Size& out) {
  bool full = true;
  for (std::size_t d = 0; d < spec.dilation.size(); ++d)
    full = full && (spec.dilation[d] == 1 || out[d + 2] > 2 * spec.dilation[d]);
  return full && has_direct_conv(spec, type);
}

}  // namespace

at::Tensor filled_up(const at::Tensor& weight) {
  constexpr std::int64_t least = 8;
  auto size = weight.sizes().vec();
  for (const int side : {0, 1}) size[side] = std::max(size[side], least);
  if (weight.sizes() == at::IntArrayRef(size)) return weight;
  at::Tensor wide = at::zeros(size, weight.options());
  wide.narrow(0, 0, weight.size(0)).narrow(1, 0, weight.size(1)).copy_(weight);
  return wide;
}

at::Tensor filled_convolution(const at::Tensor& x, const at::Tensor& weight,
                              const std::optional<at::Tensor>& bias, const ConvSpec& spec) {
  const std::int64_t more = out_of(weight, spec) - spec.out;
  const auto b =
      bias && more > 0 ? std::optional<at::Tensor>(at::constant_pad_nd(*bias, {0, more})) : bias;
  return torch_convolution(with_channels(x, into(weight, spec)), weight, b, spec)
      .narrow(1, 0, spec.out);
}

std::pair<at::Tensor, at::Tensor> filled_convolution_backward(const at::Tensor& grad,
                                                              const at::Tensor& x,
                                                              const at::Tensor& weight,
                                                              const ConvSpec& spec, bool wanted,
                                                              bool trains) {
  const at::ScalarType type = type_of_product(x);
  const at::Tensor g = with_channels(grad.to(type), out_of(weight, spec));
  const auto [dx, dw, db] = at::convolution_backward(
      g, with_channels(x.to(type), into(weight, spec)), weight.to(type), std::nullopt, spec.stride,
      spec.padding, dilations_of(spec), spec.transposed, spec.output_padding, spec.groups,
      {wanted, trains, false});
  const std::int64_t rows = spec.transposed ? spec.in : spec.out,
                     columns = (spec.transposed ? spec.out : spec.in) / spec.groups;
  return {wanted ? dx.narrow(1, 0, spec.in) : dx,
          trains ? dw.narrow(0, 0, rows).narrow(1, 0, columns) : dw};
}

Step::Size ConvStep::output_size(const std::vector<Size>& in) const {
  if (!spec.transposed) require_windows_fit(in[0], spec.kernel, spec.padding, spec.dilation);
  return conv_output_size(spec, in[0]);
}

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
                             const std::optional<at::Tensor>& bias, const ConvSpec& spec) {
  const at::ScalarType type = type_of_product(x);
  const auto b = bias ? std::optional<at::Tensor>(bias->to(type)) : std::nullopt;
  return at::convolution(x.to(type), weight.to(type), b, spec.stride, spec.padding,
                         dilations_of(spec), spec.transposed, spec.output_padding, spec.groups)
      .to(x.scalar_type());
}

std::shared_ptr<const void> ConvStep::prepare(const Preparation& pass) const {
  auto w = std::make_shared<ConvWeights>();
  const Net& p = pass.net;
  const at::Tensor& own = pass.weights[weight];
  const auto products = products_for(p.compute);
  const Size& out = pass.sizes[output];
  const std::int64_t positions = c10::multiply_integers(out) / out[1];
  const bool tensor_cores = !pass.cpu && at::isReducedFloatingType(p.compute);
  if (tensor_cores && cuda_takes(own) && thin_conv_fits(spec, out)) {
    w->way = ConvWay::thin;
    w->cast = own.to(p.compute).contiguous();
  } else if (const bool direct = products && direct_conv_pays(spec, p.compute, out);
             pass.cpu && p.channels_last && products && (pass.keep || !direct) &&
             matmul_conv_pays(spec, p.compute, *products, positions)) {
    w->way = ConvWay::matmul;
    w->type = matmul_conv_type(p.compute, *products, positions);
    // One frame, which mostly reads weights, rounds them when it needs them.
    if (!pass.keep || !pass.for_one) w->cast = own.to(w->type);
  } else if (!pass.cpu || !p.channels_last || !direct) {
    const bool fills = tensor_cores && spec.groups == 1;
    w->cast = p.laid_out(fills ? filled_up(own.to(p.compute)) : own.to(p.compute));
    if (!pass.cpu) w->cast = as_laid_out(w->cast, p.layout(w->cast.sizes().size()));
  } else {
    w->way = ConvWay::direct;
    w->products = *products;
    if (pass.keep && pass.for_one) return w;  // each made when it is needed
    w->forward.emplace(spec, own, false, *products, p.compute, out);
    if (pass.keep) w->adjoint.emplace(spec, own, true, *products, p.compute, pass.sizes[inputs[0]]);
  }
  return w;
}

void ConvStep::gather(const Frame& f, bool adjoint, const at::Tensor& x, const at::Tensor& b,
                      const at::Tensor& residual, at::Tensor& y) const {
  const ConvWeights& w = weights_of(f, *this);
  if (const auto& shared = adjoint ? w.adjoint : w.forward)
    shared->run(x, b, residual, y);
  else
    Gather(spec, f.weight(weight), adjoint, w.products, f.net->compute, y.sizes())
        .run(x, b, residual, y);
}

at::Tensor ConvStep::matrix(const Frame& f) const {
  const ConvWeights& w = weights_of(f, *this);
  return w.cast.defined() ? w.cast : f.weight(weight).to(w.type);
}

at::Tensor ConvStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const ConvWeights& w = weights_of(f, *this);
  const at::Tensor b = bias >= 0 ? f.weight(bias) : at::Tensor();
  if (w.way == ConvWay::direct) {
    // A network's output stays in float32, as it was summed, and goes where it belongs.
    at::Tensor y = f.result_of(output);
    if (!y.defined())
      y = at::empty(conv_output_size(spec, x.sizes()), x.options(), channels_last_of(x));
    gather(f, false, x, b, residual(f), y);
    return y;
  }
  if (w.way == ConvWay::matmul) {
    return matmul_conv(spec, x, matrix(f), b, residual(f), !f.result_of(output).defined());
  }
  const auto maybe = bias >= 0 ? std::optional<at::Tensor>(b) : std::nullopt;
  at::Tensor y = f.net->laid_out(w.way == ConvWay::thin
                                     ? thin_conv(spec, x, w.cast, b)
                                     : filled_convolution(of_layout(f, x), w.cast, maybe, spec));
  if (inputs.size() > 1) y.add_(f.values[inputs[1]]);
  return y;
}

void ConvStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const ConvWeights& w = weights_of(f, *this);
  const bool wanted = f.wants[inputs[0]], trains = f.trains[weight];
  if (w.way == ConvWay::direct) {
    if (trains) f.add_parameter_grad(weight, direct_weight_grad(spec, x, grad, w.products));
    if (wanted) {  // a gradient that another step has left for the input is added in the same pass
      at::Tensor dx = at::empty_like(x);
      gather(f, true, grad, {}, f.grads[inputs[0]], dx);
      f.grads[inputs[0]] = dx;
    }
  } else if (w.way == ConvWay::matmul) {
    if (trains) f.add_parameter_grad(weight, matmul_conv_weight_grad(spec, x, grad, w.type));
    at::Tensor& dx = f.grads[inputs[0]];  // added to what is there, as above
    if (wanted) dx = matmul_conv_input_grad(spec, grad, matrix(f), x, dx).to(x.scalar_type());
  } else if (w.way == ConvWay::thin) {
    if (trains) f.add_parameter_grad(weight, thin_conv_weight_grad(spec, x, grad));
    if (wanted) f.add_grad(inputs[0], f.net->laid_out(thin_conv_input_grad(spec, grad, w.cast)));
  } else if (wanted || trains) {
    const auto [dx, dw] = filled_convolution_backward(of_layout(f, grad), of_layout(f, x), w.cast,
                                                      spec, wanted, trains);
    if (trains) f.add_parameter_grad(weight, dw.contiguous());
    if (wanted) f.add_grad(inputs[0], f.net->laid_out(dx.to(x.scalar_type())));
  }
  if (bias >= 0 && f.trains[bias]) f.add_parameter_grad(bias, channel_sums(grad));
  if (silent_bias >= 0) f.add_parameter_grad(silent_bias, at::zeros_like(f.weight(silent_bias)));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

Attributes ConvStep::attributes() const {
  Attributes all{{"out", spec.out}, {"kernel", spec.kernel}, {"stride", spec.stride}};
  all.emplace_back("padding", spec.padding);
  if (spec.transposed) all.emplace_back("output_padding", spec.output_padding);
  if (is_dilated(spec)) all.emplace_back("dilation", spec.dilation);
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
