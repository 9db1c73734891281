// A Program's passes: how a batch is cut into frames, on which thread or device each runs, and how
// their gradients come together.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <mutex>

#include "kernels/base/team.h"
#include "kernels/net/places.h"
#include "kernels/net/program.h"

namespace sluice {

using Replicas = std::vector<std::shared_ptr<const Replica>>;  // by place

// The devices that share a program's batches, and the copies there that passes may use again.
struct Spread {
  explicit Spread(std::vector<at::Device> devices) : places(std::move(devices)) {}
  const Places places;

  // What is still right of them; `version` is that of the tensors that they are copies of.
  Replicas kept(std::uint64_t version) {
    std::lock_guard lock(mutex_);
    if (version != version_) copies_.clear();
    copies_.resize(static_cast<std::size_t>(places.size()));
    version_ = version;
    return copies_;
  }
  void keep(Replicas copies) {
    std::lock_guard lock(mutex_);
    copies_ = std::move(copies);
  }

 private:
  std::mutex mutex_;
  Replicas copies_;
  std::uint64_t version_ = 0;
};

// One pass over a batch: its frames, which thread runs which, and what they share.
struct Run {
  Program& program;
  const bool training, keep;
  Replicas replicas;  // the network's own, then those of other places
  std::vector<Frame> frames;
  std::vector<std::int64_t> bounds;  // frame i holds samples bounds[i] .. bounds[i+1]-1
  int threads = 1;
  std::shared_ptr<Spread> spread;  // where each thread has a place, and each place one frame
  std::vector<std::vector<at::Tensor>> parameter_grads;  // by thread
  at::Tensor result;
  const std::vector<std::int64_t> input_size;

  Run(Program& p, const at::Tensor& x, bool training, bool keep, std::uint64_t key)
      : program(p), training(training), keep(keep), input_size(x.sizes().vec()) {
    Replica own;
    for (const auto& q : p.parameters) own.weights.push_back(q.tensor.detach());
    for (const auto& b : p.buffers) own.buffers.push_back(b.tensor);
    replicas.push_back(prepared(std::move(own)));
    result = room(p.output_size(input_size), x.device());  // an image, or classes [N, C]
    cut(x);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      Frame& f = frames[i];
      f.program = &p;
      f.replica = replicas[0].get();
      f.training = training;
      f.keep = keep;
      f.leads = !away(static_cast<int>(i));
      f.first_sample = bounds[i];
      f.key = key;
      f.wants.assign(p.values_, true);
      f.wants[0] = x.requires_grad();
    }
  }

  // One frame for all samples where they depend on each other or are quicker at once; else
  // frames of about 2^16 voxels, by the shape alone, and a fixed share of them for every thread.
  // Where several devices share the batch, one frame for each.
  void cut(const at::Tensor& x) {
    const std::int64_t n = x.size(0), voxels = x.numel() / std::max<std::int64_t>(1, n * x.size(1));
    if (program.spread_ && n > 1 && program.spread_->places.device(0) == x.device()) {
      spread = program.spread_;
      bounds = spread->places.bounds(n);
      threads = static_cast<int>(bounds.size()) - 1;
      frames.resize(bounds.size() - 1);
      return;
    }
    const bool together = program.whole_batches || (program.mixes_samples_ && training);
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

  at::Tensor room(const std::vector<std::int64_t>& size, at::Device device) const {
    return at::empty(size, at::dtype(at::kFloat).device(device), program.layout(size.size()));
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
    const auto share = [&](int t) {
      at::NoGradGuard no_grad;
      for (std::size_t i = n * t / threads; i < n * (t + 1) / threads; ++i) body(t, i);
    };
    spread ? spread->places.run(threads, share) : team_run(threads, share);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::NoGradGuard no_grad;
    const at::Tensor input = x.detach();
    const Packed weights = spread ? packed() : Packed{};
    each_frame([&](int t, std::size_t i) {
      const at::Tensor mine = part(result, i);
      if (away(t)) {
        if (!replicas[t]) replicas[t] = copied(weights, place(t));
        frames[i].replica = replicas[t].get();
      }
      const at::Tensor there = away(t) ? at::empty_like(mine, place(t)) : mine;
      frames[i].result = there;
      forward_frame(frames[i], brought(part(input, i), t));
      if (away(t)) mine.copy_(there, /*non_blocking=*/true);
    });
    if (spread && may_keep_copies()) {
      Replicas copies = replicas;
      copies[0] = nullptr;
      spread->keep(std::move(copies));
    }
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
    std::vector<Packed> sums(threads);  // of other places, on the first
    for (int t = 1; t < threads && spread; ++t)
      sums[t] = Packed::like(replicas[0]->weights, grad.device());
    at::Tensor to_input;
    if (frames[0].wants[0]) to_input = room(input_size, grad.device());
    each_frame([&](int t, std::size_t i) {
      frames[i].parameter_grads = &parameter_grads[t];
      backward_frame(frames[i], brought(part(grad, i), t));
      if (to_input.defined()) part(to_input, i).copy_(frames[i].grads[0].to(at::kFloat), true);
      if (away(t)) send_home(parameter_grads[t], sums[t]);
    });
    std::vector<at::Tensor> out = std::move(parameter_grads[0]);
    for (int t = 1; t < threads; ++t)
      at::_foreach_add_(out, spread ? sums[t].views : parameter_grads[t]);
    out.insert(out.begin(), to_input);
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

  // ---- on other devices

  bool away(int thread) const { return spread && thread > 0; }
  at::Device place(int thread) const { return spread->places.device(thread); }
  at::Tensor brought(const at::Tensor& t, int thread) const {
    return away(thread) ? copied_to(t, place(thread)) : t;
  }
  bool may_keep_copies() const { return !keep && !training; }

  // Everything that passes read of the network, for those places that have no copy of it.
  Packed packed() {
    std::uint64_t version = 0;
    for (const auto& p : program.parameters) version += p.tensor._version();
    for (const auto& b : program.buffers) version += b.tensor._version();
    auto own = replicas[0];
    if (!may_keep_copies()) spread->keep({});
    replicas = spread->kept(version);
    replicas[0] = std::move(own);
    if (std::all_of(replicas.begin(), replicas.begin() + threads, [](auto& r) { return !!r; }))
      return {};
    const std::vector<at::Tensor> all = read_by_passes();
    Packed p = Packed::like(all, place(0));
    p.fill(all);
    return p;
  }
  std::vector<at::Tensor> read_by_passes() const {
    std::vector<at::Tensor> all = replicas[0]->weights;
    for (const auto& b : replicas[0]->buffers)
      all.push_back(b.scalar_type() == at::kFloat ? b : at::Tensor());
    return all;
  }
  std::shared_ptr<const Replica> copied(const Packed& weights, at::Device device) const {
    const Packed there = Packed::like(weights.views, device);
    there.flat.copy_(weights.flat, /*non_blocking=*/true);
    const auto buffers =
        there.views.begin() + static_cast<std::ptrdiff_t>(program.parameters.size());
    return prepared({{there.views.begin(), buffers}, {buffers, there.views.end()}, {}});
  }
  std::shared_ptr<const Replica> prepared(Replica r) const {
    const Pass pass{program, r.weights, r.weights[0].device().is_cpu(), keep};
    for (const auto& s : program.steps_) r.prepared.push_back(s->prepare(pass));
    return std::make_shared<const Replica>(std::move(r));
  }
  static void send_home(const std::vector<at::Tensor>& grads, const Packed& home) {
    const Packed here = Packed::like(grads, grads[0].device());
    here.fill(grads);
    home.flat.copy_(here.flat, /*non_blocking=*/true);
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

void Program::spread(std::vector<at::Device> devices) {
  spread_ = devices.size() > 1 ? std::make_shared<Spread>(std::move(devices)) : nullptr;
}

void Program::forget_copies() {
  if (spread_) spread_->keep({});
}

// Keeps the tensors' identity, as torch's Module.to() does: whoever holds one sees it move.
void Program::move_to(const at::Device& device) {
  forget_copies();
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
