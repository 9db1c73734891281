#include "kernels/program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cmath>

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

at::Tensor Program::laid_out(const at::Tensor& t) const {
  if (!channels_last || t.dim() < 4 || t.dim() > 5) return t.contiguous();
  return t.contiguous(t.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                   : at::MemoryFormat::ChannelsLast);
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

// ---- running ------------------------------------------------------------------------------------

// One pass over a batch: its frames, which thread runs which, and what they share.
struct Run {
  Program& program;
  std::vector<at::Tensor> weights;
  std::vector<std::shared_ptr<const void>> prepared;
  std::vector<Frame> frames;
  std::vector<std::int64_t> bounds;  // frame i holds samples bounds[i] .. bounds[i+1]-1
  int threads = 1;
  std::vector<std::vector<at::Tensor>> parameter_grads;  // by thread
  at::Tensor result;

  Run(Program& p, const at::Tensor& x, bool training, bool keep, std::uint64_t key) : program(p) {
    for (const auto& q : p.parameters) weights.push_back(q.tensor.detach());
    const Pass pass{p, weights, x.device().is_cpu(), keep};
    for (const auto& s : p.steps_) prepared.push_back(s->prepare(pass));
    const auto size = p.output_size(x.sizes());
    const bool image = size.size() == static_cast<std::size_t>(x.dim());  // else classes [N, C]
    result =
        at::empty(size, x.options().dtype(at::kFloat),
                  p.channels_last && image ? channels_last_of(x) : at::MemoryFormat::Contiguous);
    cut(x, p.mixes_samples_ && training);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      Frame& f = frames[i];
      f.program = &p;
      f.weights = &weights;
      f.prepared = &prepared;
      f.result = part(result, i);
      f.training = training;
      f.keep = keep;
      f.first_sample = bounds[i];
      f.key = key;
      f.wants.assign(p.values_, true);
      f.wants[0] = x.requires_grad();
    }
  }

  // One frame for all samples where they depend on each other or a GPU takes them at once; else
  // frames of about 2^16 voxels, by the shape alone, and a fixed share of them for every thread.
  void cut(const at::Tensor& x, bool together) {
    const std::int64_t n = x.size(0), voxels = x.numel() / std::max<std::int64_t>(1, n * x.size(1));
    std::int64_t count = 1;
    if (!together && x.device().is_cpu() && n > 1) {
      const std::int64_t each =
          std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, voxels));
      // Fewer samples than half of the threads: these share the work within a step instead.
      if (2 * n > team_size()) threads = static_cast<int>(std::min<std::int64_t>(n, team_size()));
      count = std::max<std::int64_t>(threads, (n + each - 1) / each);
    }
    for (std::int64_t i = 0; i <= count; ++i) bounds.push_back(n * i / count);
    frames.resize(count);
  }

  at::Tensor part(const at::Tensor& t, std::size_t i) const {
    return t.narrow(0, bounds[i], bounds[i + 1] - bounds[i]);
  }
  at::Tensor to_compute(const at::Tensor& t) const {
    return program.laid_out(t.to(program.compute));
  }

  // body(thread, frame) for every frame on its thread, in order.
  template <class F>
  void each_frame(const F& body) {
    const std::size_t n = frames.size();
    team_run(threads, [&](int t) {
      at::NoGradGuard no_grad;
      for (std::size_t i = n * t / threads; i < n * (t + 1) / threads; ++i) body(t, i);
    });
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor input = x.detach();
    each_frame([&](int, std::size_t i) { forward_frame(frames[i], part(input, i)); });
    return result;
  }
  void forward_frame(Frame& f, const at::Tensor& x) {
    f.values.resize(program.values_);
    f.saved.resize(program.steps_.size());
    f.values[0] = to_compute(x);
    for (const auto& s : program.steps_) {
      f.values[s->output] = s->forward(f);
      for (int v : s->inputs)
        if (program.last_use_[v] == s->number && !(f.keep && program.kept_[v]))
          f.values[v] = at::Tensor();
    }
    const at::Tensor y = std::move(f.values[program.output_]);
    if (!y.is_same(f.result)) f.result.copy_(y);
    f.result = at::Tensor();
  }

  // The gradients of the input (where wanted) and of every parameter.
  std::vector<at::Tensor> backward(const at::Tensor& grad) {
    parameter_grads.assign(threads, std::vector<at::Tensor>(program.parameters.size()));
    each_frame([&](int t, std::size_t i) {
      frames[i].parameter_grads = &parameter_grads[t];
      backward_frame(frames[i], part(grad, i));
    });
    std::vector<at::Tensor> out = std::move(parameter_grads[0]);
    for (int t = 1; t < threads; ++t)
      for (std::size_t p = 0; p < out.size(); ++p) out[p].add_(parameter_grads[t][p]);
    std::vector<at::Tensor> parts;
    if (frames[0].wants[0])
      for (auto& f : frames) parts.push_back(f.grads[0].to(at::kFloat));
    out.insert(out.begin(), parts.empty() ? at::Tensor() : at::cat(parts));
    return out;
  }
  void backward_frame(Frame& f, const at::Tensor& grad) {
    f.grads.resize(program.values_);
    f.grads[program.output_] = to_compute(grad);
    for (auto s = program.steps_.rbegin(); s != program.steps_.rend(); ++s) {
      const at::Tensor g = std::move(f.grads[(*s)->output]);
      (*s)->backward(f, g);
      f.values[(*s)->output] = at::Tensor();
      f.saved[(*s)->number].clear();
    }
    f.values.clear();
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

// Keeps the tensors' identity, as torch's Module.to() does: whoever holds one sees it move.
void Program::move_to(const at::Device& device) {
  for (auto& p : parameters) p.tensor.set_data(p.tensor.detach().to(device));
  for (auto& b : buffers) b.tensor.set_data(b.tensor.to(device));
}

at::Tensor Program::forward(const at::Tensor& x, bool training, std::uint64_t key) {
  if (parameters.front().tensor.device() != x.device()) move_to(x.device());
  last_input_ = x.sizes().vec();
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
