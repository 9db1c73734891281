#include "kernels/program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/random.h"
#include "kernels/steps.h"
#include "kernels/team.h"

namespace sluice {

void Frame::add_grad(int value, const at::Tensor& grad) {
  if (!wants[value]) return;
  at::Tensor& sum = grads[value];
  sum = sum.defined() ? sum + grad : grad;  // not in place: a residual's gradient is shared
}

void Frame::add_parameter_grad(int parameter, const at::Tensor& grad) {
  at::Tensor& sum = parameter_grads[parameter];
  const at::Tensor wide = grad.to(at::kFloat);
  sum = sum.defined() ? sum + wide : wide;
}

// ---- building -----------------------------------------------------------------------------------

int Program::parameter(std::string name, std::vector<std::int64_t> shape, Init init,
                       std::int64_t fan_in, std::optional<ConvSpec> conv) {
  at::Tensor t = at::zeros(shape, at::kFloat).requires_grad_();
  parameters.push_back({std::move(name), std::move(t), init, fan_in, std::move(conv)});
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
  step->weight = parameter(name + ".weight", shape, Init::conv, fan_in, spec);
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
    if (p.init == Init::zeros) t.zero_();
    if (p.init == Init::ones) t.fill_(1);
    if (p.init == Init::slope) t.fill_(0.25);
    p.tensor.copy_(t);
  }
  for (auto& b : buffers) b.tensor.fill_(b.name.ends_with("running_var") ? 1 : 0);
}

// Convolution weights cast once a pass; everything else as it is.
std::vector<at::Tensor> Program::prepare_weights() const {
  std::vector<at::Tensor> out;
  for (const auto& p : parameters) {
    at::Tensor t = p.tensor.detach();
    if (p.conv) {
      t = t.to(compute);
      if (channels_last)
        t = t.contiguous(t.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                      : at::MemoryFormat::ChannelsLast);
    }
    out.push_back(std::move(t));
  }
  return out;
}

// ---- running ------------------------------------------------------------------------------------

// One pass over a batch: its chunks and what they share.
struct Run {
  Program& program;
  std::vector<at::Tensor> weights;
  std::vector<Frame> chunks;
  std::vector<std::int64_t> bounds;  // chunk i holds samples bounds[i] .. bounds[i+1]-1
  at::Tensor result;
  std::once_flag sized;

  Run(Program& p, const at::Tensor& x, bool training, bool keep, std::uint64_t key)
      : program(p), weights(p.prepare_weights()) {
    const std::int64_t n = x.size(0);
    const bool alone = p.mixes_samples_ && training;
    const std::int64_t count =
        alone || !x.device().is_cpu()
            ? 1
            : std::max<std::int64_t>(1, std::min<std::int64_t>(n, team_size()));
    chunks.resize(count);
    for (std::int64_t i = 0; i <= count; ++i) bounds.push_back(n * i / count);
    for (std::int64_t i = 0; i < count; ++i) {
      Frame& f = chunks[i];
      f.program = &p;
      f.weights = &weights;
      f.training = training;
      f.keep = keep;
      f.first_sample = bounds[i];
      f.key = key;
      f.wants.assign(p.values_, true);
      f.wants[0] = x.requires_grad();
    }
  }

  at::Tensor part(const at::Tensor& t, std::size_t i) const {
    return t.narrow(0, bounds[i], bounds[i + 1] - bounds[i]);
  }
  at::Tensor to_compute(const at::Tensor& t) const {
    at::Tensor c = t.to(program.compute);
    return program.channels_last ? c.contiguous(c.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                                             : at::MemoryFormat::ChannelsLast)
                                 : c.contiguous();
  }

  at::Tensor forward(const at::Tensor& x) {
    team_run(static_cast<int>(chunks.size()), [&](int i) {
      at::NoGradGuard no_grad;
      forward_chunk(static_cast<std::size_t>(i), part(x.detach(), i));
    });
    return result;
  }
  void forward_chunk(std::size_t i, const at::Tensor& x) {
    Frame& f = chunks[i];
    f.values.resize(program.values_);
    f.saved.resize(program.steps_.size());
    f.values[0] = to_compute(x);
    for (const auto& s : program.steps_) {
      f.values[s->output] = s->forward(f);
      for (int v : s->inputs)
        if (program.last_use_[v] == s->number && !(f.keep && program.kept_[v]))
          f.values[v] = at::Tensor();
    }
    at::Tensor y = std::move(f.values[program.output_]);
    std::call_once(sized, [&] {
      auto shape = y.sizes().vec();
      shape[0] = bounds.back();
      result = at::empty(shape, y.options().dtype(at::kFloat), y.suggest_memory_format());
    });
    part(result, i).copy_(y);
  }

  // The gradients of the input (where wanted) and of every parameter.
  std::vector<at::Tensor> backward(const at::Tensor& grad) {
    team_run(static_cast<int>(chunks.size()), [&](int i) {
      at::NoGradGuard no_grad;
      backward_chunk(chunks[i], part(grad, i));
    });
    std::vector<at::Tensor> out(1 + program.parameters.size());
    if (chunks[0].wants[0]) {
      std::vector<at::Tensor> parts;
      for (auto& f : chunks) parts.push_back(f.grads[0].to(at::kFloat));
      out[0] = at::cat(parts);
    }
    for (std::size_t p = 0; p < program.parameters.size(); ++p) {
      at::Tensor& sum = out[p + 1];
      for (auto& f : chunks)
        sum = sum.defined() ? sum + f.parameter_grads[p] : f.parameter_grads[p];
      sum = sum.contiguous();
    }
    return out;
  }
  void backward_chunk(Frame& f, const at::Tensor& grad) {
    f.grads.resize(program.values_);
    f.parameter_grads.resize(program.parameters.size());
    f.grads[program.output_] = to_compute(grad);
    for (auto s = program.steps_.rbegin(); s != program.steps_.rend(); ++s) {
      const at::Tensor g = std::move(f.grads[(*s)->output]);
      (*s)->backward(f, g);
      f.values[(*s)->output] = at::Tensor();
      f.saved[(*s)->number].clear();
    }
  }
};

namespace {

struct ProgramBackward final : torch::autograd::Node {
  std::shared_ptr<Run> run;
  std::string name() const override { return "ProgramBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    TORCH_CHECK(run, "backward through a network a second time");
    return std::exchange(run, nullptr)->backward(grads[0]);
  }
  void release_variables() override { run.reset(); }
};

}  // namespace

at::Tensor Program::forward(const at::Tensor& x, bool training, std::uint64_t key) {
  torch::autograd::variable_list inputs{x};
  for (const auto& p : parameters) inputs.push_back(p.tensor);
  const bool keep =
      at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(inputs);
  auto run = std::make_shared<Run>(*this, x, training, keep, key);
  at::Tensor y = run->forward(x);
  if (keep) {
    auto node = std::shared_ptr<ProgramBackward>(new ProgramBackward, torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs));
    node->run = std::move(run);
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace sluice
