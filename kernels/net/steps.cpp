#include "kernels/net/steps.h"

#include <ATen/ATen.h>

#include <cstring>

#include "engine/base/random.h"
#include "kernels/net/direct_conv.h"
#include "kernels/net/dropout.h"

namespace sluice {
namespace {

const at::Tensor none;

at::Tensor input(const Frame& f, const Step& s, std::size_t i) {
  return i < s.inputs.size() ? f.values[s.inputs[i]] : none;
}

}  // namespace

// ---- convolution --------------------------------------------------------------------------------

namespace {

// Either the two gathers of the direct convolutions or a weight for LibTorch's.
struct ConvWeights {
  std::optional<Gather> forward, adjoint;
  at::Tensor cast;
};
const ConvWeights& weights_of(const Frame& f, const Step& s) {
  return *static_cast<const ConvWeights*>(f.replica->prepared[s.number].get());
}

}  // namespace

// Each voxel of the smaller side (input of a transposed one, else output) meets the whole kernel.
Step::Product ConvStep::product(const Size& input) const {
  const Size size = spec.transposed ? input : conv_output_size(spec, input);
  Product p{static_cast<double>(spec.in * spec.out * size[0]), spec.in, spec.out};
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

std::shared_ptr<const void> ConvStep::prepare(const Pass& pass) const {
  auto w = std::make_shared<ConvWeights>();
  const Program& p = pass.program;
  if (pass.cpu && p.compute == at::kBFloat16 && p.channels_last && has_direct_conv() &&
      direct_conv_pays(spec)) {
    w->forward.emplace(spec, pass.weights[weight], false);
    if (pass.keep) w->adjoint.emplace(spec, pass.weights[weight], true);
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
    // The network's output stays in float32, as it was summed, and goes where it belongs.
    at::Tensor y = output == f.program->output() ? f.result
                                                 : at::empty(conv_output_size(spec, x.sizes()),
                                                             x.options(), channels_last_of(x));
    w.forward->run(x, bias >= 0 ? f.weight(bias) : none, input(f, *this, 1), y);
    return y;
  }
  std::optional<at::Tensor> b;
  if (bias >= 0) b = f.weight(bias).to(x.scalar_type());
  const std::vector<std::int64_t> dilation(spec.kernel.size(), 1);
  at::Tensor y = f.program->laid_out(at::convolution(
      x, w.cast, b, spec.stride, spec.padding, dilation, spec.transposed, spec.output_padding, 1));
  if (inputs.size() > 1) y.add_(f.values[inputs[1]]);
  return y;
}

// A gradient that another step has left for the input is added in the same pass.
void ConvStep::input_grad(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  at::Tensor dx = at::empty_like(x);
  weights_of(f, *this).adjoint->run(grad, none, f.grads[inputs[0]], dx);
  f.grads[inputs[0]] = dx;
}

void ConvStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const ConvWeights& w = weights_of(f, *this);
  const bool wanted = f.wants[inputs[0]];
  if (w.adjoint) {
    f.add_parameter_grad(weight, direct_weight_grad(spec, x, grad));
    if (wanted) input_grad(f, grad);
  } else {
    const std::vector<std::int64_t> dilation(spec.kernel.size(), 1);
    const auto [dx, dw, db] =
        at::convolution_backward(grad, x, w.cast, std::nullopt, spec.stride, spec.padding, dilation,
                                 spec.transposed, spec.output_padding, 1, {wanted, true, false});
    f.add_parameter_grad(weight, dw.contiguous());
    if (wanted) f.add_grad(inputs[0], f.program->laid_out(dx));
  }
  if (bias >= 0) f.add_parameter_grad(bias, channel_sums(grad));
  if (silent_bias >= 0) f.add_parameter_grad(silent_bias, at::zeros_like(f.weight(silent_bias)));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

// ---- norm and activation ------------------------------------------------------------------------

// The statistics x is normalised with; in training, batch norm's running ones follow them.
NormStats NormActStep::statistics(Frame& f, const at::Tensor& x) const {
  if (norm == Norm::instance) return norm_stats(x, true);
  const auto& buffers = f.replica->buffers;
  const at::Tensor &mean = buffers[running_mean], &var = buffers[running_var];
  const at::Tensor b = bias >= 0 ? f.weight(bias) : at::zeros_like(mean);
  if (!f.training) return {(mean - b).unsqueeze(0), var.unsqueeze(0)};
  NormStats s = norm_stats(x, false);
  if (!f.leads) return s;
  const double n = static_cast<double>(x.numel() / x.size(1));
  mean.lerp_(s.mean[0] + b, momentum);
  var.lerp_(s.variance[0] * (n / std::max(1.0, n - 1)), momentum);
  buffers[batches].add_(1);
  return s;
}

NormAct NormActStep::numbers(Frame& f, const at::Tensor& x) const {
  NormAct p;
  const auto options = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  if (norm == Norm::none) {
    p.mean = at::zeros({1, x.size(1)}, options);
    p.rstd = at::ones({1, x.size(1)}, options);
  } else {
    const NormStats s = statistics(f, x);
    p.mean = s.mean.contiguous();
    p.rstd = (s.variance + eps).rsqrt_();
  }
  p.frozen = norm == Norm::none || (norm == Norm::batch && !f.training);
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  if (slope >= 0)
    p.slope = f.weight(slope);
  else if (fixed_slope)
    p.slope = at::full({1}, *fixed_slope, options);
  return p;
}

at::Tensor NormActStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  const NormAct p = numbers(f, x);
  if (f.keep) f.saved[number] = {p.mean, p.rstd, p.slope};
  return norm_act(x, p, input(f, *this, 1));
}

void NormActStep::backward(Frame& f, const at::Tensor& grad) const {
  const auto& saved = f.saved[number];
  NormAct p{saved[0], saved[1], none,
            none,     saved[2], norm == Norm::none || (norm == Norm::batch && !f.training)};
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  const NormActGrad g = norm_act_backward(grad, f.values[inputs[0]], p);
  f.add_grad(inputs[0], g.input);
  if (slope >= 0) f.add_parameter_grad(slope, g.slope);
  if (gamma >= 0) {
    f.add_parameter_grad(gamma, g.gamma);
    f.add_parameter_grad(beta, g.beta);
  }
  // With running statistics nothing takes the convolution's bias away again.
  if (p.frozen && bias >= 0) f.add_parameter_grad(bias, channel_sums(g.input));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

// ---- dropout ------------------------------------------------------------------------------------

kernels::DropoutRule DropoutStep::rule(const Frame& f) const {
  return kernels::DropoutRule::of(p, mix(f.key + static_cast<std::uint64_t>(number)),
                                  f.first_sample);
}

at::Tensor DropoutStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  return f.training ? dropout(x, rule(f)) : x;
}

void DropoutStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], f.training ? dropout(grad, rule(f)) : grad);
}

// ---- sum and concatenation ----------------------------------------------------------------------

at::Tensor AddStep::forward(Frame& f) const { return f.values[inputs[0]] + f.values[inputs[1]]; }
void AddStep::backward(Frame& f, const at::Tensor& grad) const {
  f.add_grad(inputs[0], grad);
  f.add_grad(inputs[1], grad);
}

namespace {

// Moves `from`'s channels into `to`'s from channel `first` on, or out of them, value by value of a
// channels-last image; both have rows of so many bytes.
void copy_channels(const char* from, std::int64_t from_row, char* to, std::int64_t to_row,
                   std::int64_t rows) {
  const std::int64_t n = std::min(from_row, to_row);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * to_row, from + r * from_row, n);
}

}  // namespace

namespace {

// [N, C, ...], channels last, as [rows, C]; and back, of as many rows as `like` has.
at::Tensor as_rows(const at::Tensor& t) { return t.movedim(1, -1).reshape({-1, t.size(1)}); }
at::Tensor as_image(const at::Tensor& rows, const at::Tensor& like) {
  auto shape = like.movedim(1, -1).sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape).movedim(-1, 1);
}

// Columns as whole words where all numbers of columns allow it.
at::Tensor in_words(const at::Tensor& rows, bool words) {
  return words ? rows.view(at::kLong) : rows;
}
bool is_words(const at::Tensor& rows, std::int64_t columns) {
  return columns * rows.element_size() % 8 == 0;
}

bool last_on_device(const at::Tensor& t) {
  return !t.is_cpu() && t.dim() > 3 && t.is_contiguous(channels_last_of(t));
}

}  // namespace

at::Tensor concatenated(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = as_rows(a), y = as_rows(b);
  const bool words = is_words(x, x.size(1)) && is_words(y, y.size(1));
  const at::Tensor both = at::cat({in_words(x, words), in_words(y, words)}, 1);
  return as_image(words ? both.view(a.scalar_type()) : both, a);
}

at::Tensor channels_of(const at::Tensor& t, std::int64_t first, std::int64_t count) {
  const at::Tensor rows = as_rows(t);
  const bool words = is_words(rows, rows.size(1)) && is_words(rows, first) && is_words(rows, count);
  const std::int64_t each = words ? 8 / rows.element_size() : 1;
  const at::Tensor part = in_words(rows, words).narrow(1, first / each, count / each).contiguous();
  return as_image(words ? part.view(t.scalar_type()) : part, t);
}

at::Tensor ConcatStep::forward(Frame& f) const {
  const at::Tensor &a = f.values[inputs[0]], &b = f.values[inputs[1]];
  if (last_on_device(a) && last_on_device(b)) return concatenated(a, b);
  if (!norm_act_is_fused(a) || !norm_act_is_fused(b))
    return f.program->laid_out(at::cat({a, b}, 1));
  auto size = a.sizes().vec();
  size[1] += b.size(1);
  at::Tensor y = at::empty(size, a.options(), channels_last_of(a));
  const std::int64_t rows = a.numel() / a.size(1), item = a.element_size();
  char* to = static_cast<char*>(y.data_ptr());
  copy_channels(static_cast<const char*>(a.const_data_ptr()), a.size(1) * item, to, size[1] * item,
                rows);
  copy_channels(static_cast<const char*>(b.const_data_ptr()), b.size(1) * item,
                to + a.size(1) * item, size[1] * item, rows);
  return y;
}

void ConcatStep::backward(Frame& f, const at::Tensor& grad) const {
  for (int i : {0, 1}) {
    const std::int64_t first = i == 0 ? 0 : first_channels;
    const std::int64_t n = i == 0 ? first_channels : grad.size(1) - first_channels;
    if (last_on_device(grad)) {
      f.add_grad(inputs[i], channels_of(grad, first, n));
      continue;
    }
    if (!norm_act_is_fused(grad)) {
      f.add_grad(inputs[i], f.program->laid_out(grad.narrow(1, first, n)));
      continue;
    }
    auto size = grad.sizes().vec();
    size[1] = n;
    at::Tensor part = at::empty(size, grad.options(), channels_last_of(grad));
    const std::int64_t item = grad.element_size();
    copy_channels(static_cast<const char*>(grad.const_data_ptr()) + first * item,
                  grad.size(1) * item, static_cast<char*>(part.data_ptr()), n * item,
                  grad.numel() / grad.size(1));
    f.add_grad(inputs[i], part);
  }
}

}  // namespace sluice
