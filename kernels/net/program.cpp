#include "kernels/net/program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "engine/base/random.h"
#include "kernels/net/steps.h"

namespace sluice {

void Frame::add_grad(int value, const at::Tensor& grad) {
  if (!wants[value]) return;
  at::Tensor& sum = grads[value];
  sum = sum.defined() ? sum + grad : grad;  // not in place: a residual's gradient is shared
}

void Frame::add_parameter_grad(int parameter, const at::Tensor& grad) {
  at::Tensor& sum = (*parameter_grads)[parameter];
  const at::Tensor wide = grad.to(at::kFloat);
  if (!sum.defined())
    sum = wide.contiguous();
  else
    sum.add_(wide);
}

// ---- building -----------------------------------------------------------------------------------

int Program::parameter(std::string name, std::vector<std::int64_t> shape, Init init,
                       std::int64_t fan_in) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return static_cast<int>(i);
  at::Tensor t = at::zeros(shape, at::kFloat).requires_grad_();
  parameters.push_back({std::move(name), std::move(t), init, fan_in});
  return static_cast<int>(parameters.size()) - 1;
}

int Program::buffer(std::string name, at::Tensor tensor) {
  buffers.push_back({std::move(name), std::move(tensor)});
  return static_cast<int>(buffers.size()) - 1;
}

int Program::append(std::unique_ptr<Step> step) {
  step->output = values_++;
  steps_.push_back(std::move(step));
  return steps_.back()->output;
}

Program::ConvResult Program::conv(int x, const std::string& name, const ConvSpec& spec, bool bias,
                                  bool absorbed) {
  auto step = std::make_unique<ConvStep>();
  std::vector<std::int64_t> shape{spec.transposed ? spec.in : spec.out,
                                  spec.transposed ? spec.out : spec.in};
  shape.insert(shape.end(), spec.kernel.begin(), spec.kernel.end());
  std::int64_t fan_in = shape[1];  // PyTorch's rule, for transposed convolutions too
  for (auto k : spec.kernel) fan_in *= k;
  step->spec = spec;
  step->inputs = {x};
  step->keeps = {true};
  step->weight = parameter(name + ".weight", shape, Init::conv, fan_in);
  int b = -1;
  if (bias) {
    b = parameter(name + ".bias", {spec.out}, Init::conv, fan_in);
    (absorbed ? step->silent_bias : step->bias) = b;
  }
  return {append(std::move(step)), b};
}

int Program::norm_act(int x, std::int64_t channels, const NormActSpec& spec) {
  auto step = std::make_unique<NormActStep>();
  step->inputs = {x};
  step->keeps = {true};
  step->norm = spec.norm;
  step->channels = channels;
  step->fixed_slope = spec.fixed_slope;
  if (spec.norm == Norm::batch) {
    mixes_samples_ = true;
    step->bias = spec.bias;
    step->gamma = parameter(spec.norm_name + ".weight", {channels}, Init::ones, 0);
    step->beta = parameter(spec.norm_name + ".bias", {channels}, Init::zeros, 0);
    step->running_mean = buffer(spec.norm_name + ".running_mean", at::zeros({channels}));
    step->running_var = buffer(spec.norm_name + ".running_var", at::ones({channels}));
    step->batches = buffer(spec.norm_name + ".num_batches_tracked", at::zeros({}, at::kLong));
  }
  if (!spec.slope_name.empty())
    step->slope = parameter(spec.slope_name + ".weight", {1}, Init::slope, 0);
  return append(std::move(step));
}

int Program::dropout(int x, double p) {
  auto step = std::make_unique<DropoutStep>();
  step->inputs = {x};
  step->keeps = {false};
  step->p = p;
  draws_ = true;
  return append(std::move(step));
}

int Program::add(int x, int residual) {
  const auto maker =
      std::find_if(steps_.begin(), steps_.end(), [&](const auto& s) { return s->output == x; });
  if (maker != steps_.end() && (*maker)->inputs.size() == 1 &&
      (dynamic_cast<ConvStep*>(maker->get()) || dynamic_cast<NormActStep*>(maker->get()))) {
    (*maker)->inputs.push_back(residual);
    (*maker)->keeps.push_back(false);
    std::rotate(maker, maker + 1, steps_.end());  // behind the step that makes the residual
    return x;
  }
  auto step = std::make_unique<AddStep>();
  step->inputs = {x, residual};
  step->keeps = {false, false};
  return append(std::move(step));
}

int Program::concat(int a, int b, std::int64_t a_channels) {
  auto step = std::make_unique<ConcatStep>();
  step->first_channels = a_channels;
  step->inputs = {a, b};
  step->keeps = {false, false};
  return append(std::move(step));
}

void Program::finish(int output) {
  output_ = output;
  last_use_.assign(values_, -1);
  kept_.assign(values_, false);
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    Step& s = *steps_[n];
    s.number = static_cast<int>(n);
    for (std::size_t i = 0; i < s.inputs.size(); ++i) {
      last_use_[s.inputs[i]] = s.number;
      if (s.keeps[i]) kept_[s.inputs[i]] = true;
    }
  }
}

namespace {

void fill_kaiming(float* w, std::int64_t n, std::int64_t fan_in, std::uint64_t key) {
  const float scale = std::sqrt(2.f / static_cast<float>(fan_in));
  for (std::int64_t i = 0; i < n; i += 2) {
    const Block4 bits = philox(static_cast<std::uint64_t>(i), 1, key);
    float a, b;
    normal_pair(bits.v[0], bits.v[1], a, b);
    w[i] = a * scale;
    if (i + 1 < n) w[i + 1] = b * scale;
  }
}

}  // namespace

void Program::initialise(std::uint64_t seed) {
  at::NoGradGuard no_grad;
  for (auto& p : parameters) {
    at::Tensor t = at::empty(p.tensor.sizes(), at::kFloat);
    float* w = t.data_ptr<float>();
    // kaiming_uniform with a = sqrt(5): bound = sqrt(6 / ((1 + a^2) fan_in)), as for the bias.
    const double bound = p.fan_in > 0 ? 1 / std::sqrt(static_cast<double>(p.fan_in)) : 0;
    const std::uint64_t key = random_key(seed, p.name);
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      const Block4 bits = philox(static_cast<std::uint64_t>(i / 4), 0, key);
      w[i] = static_cast<float>((2.0 * unit_float(bits.v[i % 4]) - 1.0) * bound);
    }
    if (p.init == Init::kaiming) fill_kaiming(w, t.numel(), p.fan_in, key);
    if (p.init == Init::zeros) t.zero_();
    if (p.init == Init::ones) t.fill_(1);
    if (p.init == Init::slope) t.fill_(0.25);
    p.tensor.copy_(t);
  }
  for (auto& b : buffers) b.tensor.fill_(b.name.ends_with("running_var") ? 1 : 0);
}

at::MemoryFormat Program::layout(std::size_t axes) const {
  if (!channels_last || axes < 4 || axes > 5) return at::MemoryFormat::Contiguous;
  return axes == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

at::Tensor Program::laid_out(const at::Tensor& t) const {
  return t.contiguous(layout(t.sizes().size()));
}

std::vector<Step::Size> Program::sizes(at::IntArrayRef input) const {
  std::vector<Step::Size> sizes(values_);
  sizes[0] = input.vec();
  for (const auto& s : steps_) {
    std::vector<Step::Size> of_inputs;
    for (int v : s->inputs) of_inputs.push_back(sizes[v]);
    sizes[s->output] = s->output_size(of_inputs);
  }
  return sizes;
}

std::vector<std::int64_t> Program::output_size(at::IntArrayRef input) const {
  return sizes(input)[output_];
}

std::vector<Step::Product> Program::products() const {
  std::vector<Step::Product> all;
  if (last_input_.empty()) return all;
  const std::vector<Step::Size> of = sizes(last_input_);
  for (const auto& s : steps_)
    if (const Step::Product p = s->product(of[s->inputs[0]]); p.multiply_adds > 0) all.push_back(p);
  return all;
}

}  // namespace sluice
