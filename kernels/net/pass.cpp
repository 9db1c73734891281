#include "kernels/net/pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "kernels/base/team.h"

namespace sluice {

// The devices that share a network's batches, and the copies there that passes may use again.
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

// The network's own tensors with what steps made of them, for passes that need no gradients.
struct Prepared {
  std::mutex mutex;
  std::shared_ptr<const Replica> replica;
  std::uint64_t version = 0;
};

static std::uint64_t version_of(const Net& net) {
  std::uint64_t version = 0;
  for (const auto& p : net.parameters) version += p.tensor._version();
  for (const auto& b : net.buffers) version += b.tensor._version();
  return version;
}

Pass::Pass(Net& net, const Tensors& x, std::size_t outputs, bool training, bool keep,
           std::uint64_t key)
    : net_(net), schedule_(net.schedule(outputs)), training_(training), keep_(keep) {
  replicas_.push_back(own());
  for (const auto& t : x) input_sizes_.push_back(t.sizes().vec());
  const auto& sizes = net.sizes(input_sizes_);
  for (std::size_t i = 0; i < outputs; ++i)
    results_.push_back(room(sizes[net.outputs[i]], x[0].device()));
  cut(x[0]);
  plan();
  timed_ = x[0].is_cpu();
  const std::vector<bool> wants = wanted(x);
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    Frame& f = frames_[i];
    f.net = &net;
    f.schedule = &schedule_;
    f.replica = replicas_[0].get();
    f.training = training;
    f.keep = keep;
    f.leads = !away(static_cast<int>(i));
    f.first_sample = bounds_[i];
    f.key = key;
    f.wants = wants;
  }
}

// Passes that need no gradients share one until the weights change.
std::shared_ptr<const Replica> Pass::own() {
  const auto made = [this] {
    Replica own;
    for (const auto& q : net_.parameters) own.weights.push_back(q.tensor.detach());
    for (const auto& b : net_.buffers) own.buffers.push_back(b.tensor);
    return prepared(std::move(own));
  };
  Prepared& kept = *net_.prepared_;
  std::lock_guard lock(kept.mutex);
  if (!may_keep_copies()) {
    kept.replica = nullptr;
    return made();
  }
  if (const auto version = version_of(net_); !kept.replica || kept.version != version) {
    kept.replica = made();
    kept.version = version;
  }
  return kept.replica;
}

// A value has a gradient where an input that wants one, or a parameter, has a part in it.
std::vector<bool> Pass::wanted(const Tensors& x) const {
  std::vector<bool> wants(static_cast<std::size_t>(net_.values), false);
  for (std::size_t i = 0; i < x.size(); ++i) wants[i] = x[i].requires_grad();
  for (const auto& s : net_.steps) {
    bool any = !s->parameters().empty();
    for (const int v : s->inputs) any = any || wants[v];
    wants[s->output] = any;
  }
  return wants;
}

// One frame for all samples where they depend on each other or are quicker at once; else
// frames of about 2^16 voxels, by the shape alone, and a fixed share of them for every thread.
// Where several devices share the batch, one frame for each.
void Pass::cut(const at::Tensor& x) {
  const std::int64_t n = x.size(0), voxels = x.numel() / std::max<std::int64_t>(1, n * x.size(1));
  if (net_.spread_ && n > 1 && net_.spread_->places.device(0) == x.device()) {
    spread_ = net_.spread_;
    bounds_ = spread_->places.bounds(n);
    threads_ = static_cast<int>(bounds_.size()) - 1;
    frames_.resize(bounds_.size() - 1);
    return;
  }
  const bool together = net_.mixes_samples_ && training_;
  std::int64_t count = 1;
  if (!together && x.device().is_cpu() && n > 1) {
    const std::int64_t each = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, voxels));
    // Fewer samples than half of the threads: these share the work within a step instead.
    if (2 * n > team_size()) threads_ = static_cast<int>(std::min<std::int64_t>(n, team_size()));
    count = std::max<std::int64_t>(threads_, (n + each - 1) / each);
  }
  for (std::int64_t i = 0; i <= count; ++i) bounds_.push_back(n * i / count);
  frames_.resize(count);
}

// Of a frame of the largest part.
void Pass::plan() {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < frames_.size(); ++i)
    most = std::max(most, bounds_[i + 1] - bounds_[i]);
  std::vector<Step::Size> frame = input_sizes_;
  for (auto& size : frame) size[0] = most;
  const FrameCount count{static_cast<std::int64_t>(frames_.size()), threads_};
  if (!keep_) {
    net_.window_ = {&schedule_, std::move(frame), count, nullptr};
    return;
  }
  plan_ = net_.plan_for(schedule_, frame, count);
  retained_ = plan_ ? retained_values(net_, schedule_, plan_->again) : schedule_.kept;
  makers_.assign(static_cast<std::size_t>(net_.values), -1);
  for (const int n : schedule_.steps) makers_[net_.steps[n]->output] = n;
}

at::Tensor Pass::room(const std::vector<std::int64_t>& size, at::Device device) const {
  const auto type = net_.compute == at::kDouble ? at::kDouble : at::kFloat;
  return at::empty(size, at::dtype(type).device(device), net_.layout(size.size()));
}
at::Tensor Pass::part(const at::Tensor& t, std::size_t i) const {
  return t.narrow(0, bounds_[i], bounds_[i + 1] - bounds_[i]);
}
Pass::Tensors Pass::parts(const Tensors& all, std::size_t i, int thread) const {
  Tensors mine;
  for (const auto& t : all)
    mine.push_back(t.defined() ? brought(part(t, i), thread) : at::Tensor());
  return mine;
}
at::Tensor Pass::to_compute(const at::Tensor& t) const { return net_.laid_out(t.to(net_.compute)); }

// body(thread, frame) for every frame on its thread, in order.
template <class F>
void Pass::each_frame(const F& body) {
  const std::size_t n = frames_.size();
  const auto share = [&](int t) {
    at::NoGradGuard no_grad;
    for (std::size_t i = n * t / threads_; i < n * (t + 1) / threads_; ++i) body(t, i);
  };
  spread_ ? spread_->places.run(threads_, share) : team_run(threads_, share);
}

Pass::Tensors Pass::forward(const Tensors& x) {
  at::NoGradGuard no_grad;
  Tensors input;
  for (const auto& t : x) input.push_back(t.detach());
  const Packed weights = spread_ ? packed() : Packed{};
  each_frame([&](int t, std::size_t i) {
    Frame& f = frames_[i];
    if (away(t)) {
      if (!replicas_[t]) replicas_[t] = copied(weights, place(t));
      f.replica = replicas_[t].get();
    }
    Tensors mine;
    for (const auto& result : results_) {
      mine.push_back(part(result, i));
      f.results.push_back(away(t) ? at::empty_like(mine.back(), place(t)) : mine.back());
    }
    const Tensors there = f.results;
    forward_frame(f, parts(input, i, t));
    for (std::size_t k = 0; away(t) && k < mine.size(); ++k)
      mine[k].copy_(there[k], /*non_blocking=*/true);
  });
  if (timed_) net_.costs_->end_forward(x[0].size(0));
  if (timed_ && keep_ && net_.costs_->counts_kept()) net_.costs_->end_counting(x[0].size(0));
  if (spread_ && may_keep_copies()) {
    Replicas copies = replicas_;
    copies[0] = nullptr;
    spread_->keep(std::move(copies));
  }
  return results_;
}

void Pass::forward_frame(Frame& f, const Tensors& x) {
  f.values.resize(net_.values);
  f.saved.resize(net_.steps.size());
  // Numbers of samples, such as times and classes, need all their digits.
  for (std::size_t i = 0; i < x.size(); ++i) f.values[i] = x[i].dim() > 1 ? to_compute(x[i]) : x[i];
  for (const int n : schedule_.steps) {
    const Step& s = *net_.steps[n];
    const auto since = Costs::Clock::now();
    run(s, f);
    if (timed_) net_.costs_->add_forward(n, since);
    if (keep_ && drops_saved(s)) f.saved[n].clear();
    for (const int v : s.inputs)
      if (schedule_.last_use[v] == n && !(keep_ && retained_[v])) f.values[v] = at::Tensor();
  }
  if (timed_ && keep_ && net_.costs_->counts_kept()) count_kept(f);
  for (std::size_t i = 0; i < f.results.size(); ++i) {
    const at::Tensor& y = f.values[net_.outputs[i]];
    if (!y.is_same(f.results[i])) f.results[i].copy_(y);
  }
  for (std::size_t i = 0; i < f.results.size(); ++i)
    if (const int v = net_.outputs[i]; !(keep_ && retained_[v])) f.values[v] = at::Tensor();
  f.results.clear();
}

void Pass::run(const Step& s, Frame& f) const {
  f.values[s.output] = s.forward(f);
  if (net_.observer) net_.observer(s, f);
}

// ---- what the memory plan lets go of ------------------------------------------------------------

bool Pass::drops_saved(const Step& s) const {
  return plan_ && plan_->again[s.number] && (s.records() || s.saved_bytes({1}) > 0);
}

void Pass::make_again(int n, Frame& f) const {
  const Step& s = *net_.steps[n];
  for (const int v : s.inputs)
    if (!f.values[v].defined()) make_again(makers_[v], f);
  f.leads = false;  // running statistics have seen this pass
  run(s, f);
}

// What a step's backward pass reads is there afterwards.
void Pass::prepare_backward(const Step& s, Frame& f) const {
  if (!plan_) return;
  if (drops_saved(s) && f.saved[s.number].empty()) make_again(s.number, f);
  for (std::size_t i = 0; i < s.inputs.size(); ++i)
    if (const int v = s.inputs[i]; s.keeps[i] && !f.values[v].defined()) make_again(makers_[v], f);
}

// What a step made or saved for the backward pass; what several hold is the first one's.
void Pass::count_kept(const Frame& f) const {
  std::set<const void*> seen;
  const auto bytes = [&](const at::Tensor& t) -> std::int64_t {
    if (!t.defined() || !seen.insert(t.storage().data()).second) return 0;
    return static_cast<std::int64_t>(t.storage().nbytes());
  };
  for (int v = 0; v < net_.inputs; ++v) bytes(f.values[v]);
  for (const auto& weight : f.replica->weights) bytes(weight);
  for (const int n : schedule_.steps) {
    const Step& s = *net_.steps[n];
    std::int64_t sum = retained_[s.output] ? bytes(f.values[s.output]) : 0;
    for (const auto& t : f.saved[n]) sum += bytes(t);
    net_.costs_->add_kept(n, sum);
  }
}

Pass::Tensors Pass::backward(const Tensors& grads) {
  parameter_grads_.assign(threads_, std::vector<at::Tensor>(net_.parameters.size()));
  const at::Device device = results_[0].device();
  std::vector<Packed> sums(threads_);  // of other places, on the first
  for (int t = 1; t < threads_ && spread_; ++t)
    sums[t] = Packed::like(replicas_[0]->weights, device);
  Tensors out(input_sizes_.size());
  for (std::size_t k = 0; k < out.size(); ++k)
    if (frames_[0].wants[k]) out[k] = room(input_sizes_[k], device);
  each_frame([&](int t, std::size_t i) {
    Frame& f = frames_[i];
    f.parameter_grads = &parameter_grads_[t];
    backward_frame(f, parts(grads, i, t));
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (!out[k].defined()) continue;
      if (f.grads[k].defined())
        part(out[k], i).copy_(f.grads[k], true);
      else
        part(out[k], i).zero_();
    }
    if (away(t)) send_home(parameter_grads_[t], sums[t]);
  });
  if (timed_) net_.costs_->end_backward(input_sizes_[0][0]);
  // What no output that has a gradient needs, has none either, in no frame.
  Tensors to, from;
  for (int t = 1; t < threads_; ++t) {
    to.clear();
    from.clear();
    for (std::size_t p = 0; p < net_.parameters.size(); ++p) {
      if (!parameter_grads_[0][p].defined()) continue;
      to.push_back(parameter_grads_[0][p]);
      from.push_back(spread_ ? sums[t].views[p] : parameter_grads_[t][p]);
    }
    if (!to.empty()) at::_foreach_add_(to, from);
  }
  for (at::Tensor& grad : parameter_grads_[0]) out.push_back(std::move(grad));
  return out;
}

void Pass::backward_frame(Frame& f, const Tensors& grads) {
  f.grads.resize(net_.values);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    at::Tensor& sum = f.grads[net_.outputs[i]];
    const at::Tensor g = to_compute(grads[i]);
    sum = sum.defined() ? sum + g : g;
  }
  for (auto n = schedule_.steps.rbegin(); n != schedule_.steps.rend(); ++n) {
    const Step& s = *net_.steps[*n];
    const at::Tensor g = f.grads[s.output];
    const auto since = Costs::Clock::now();
    if (g.defined()) {
      prepare_backward(s, f);
      s.backward(f, g);
      if (timed_) net_.costs_->add_backward(*n, since);
      if (net_.observer) net_.observer(s, f);
    }
    f.grads[s.output] = at::Tensor();
    f.values[s.output] = at::Tensor();
    f.saved[s.number].clear();
  }
  f.values.clear();
}

// ---- on other devices ---------------------------------------------------------------------------

at::Device Pass::place(int thread) const { return spread_->places.device(thread); }
at::Tensor Pass::brought(const at::Tensor& t, int thread) const {
  return away(thread) ? copied_to(t, place(thread)) : t;
}

// Everything that passes read of the network, for those places that have no copy of it.
Packed Pass::packed() {
  auto own = replicas_[0];
  if (!may_keep_copies()) spread_->keep({});
  replicas_ = spread_->kept(version_of(net_));
  replicas_[0] = std::move(own);
  if (std::all_of(replicas_.begin(), replicas_.begin() + threads_, [](auto& r) { return !!r; }))
    return {};
  const std::vector<at::Tensor> all = read_by_passes();
  Packed p = Packed::like(all, place(0));
  p.fill(all);
  return p;
}

std::vector<at::Tensor> Pass::read_by_passes() const {
  std::vector<at::Tensor> all = replicas_[0]->weights;
  for (const auto& b : replicas_[0]->buffers)
    all.push_back(b.scalar_type() == at::kFloat ? b : at::Tensor());
  return all;
}

std::shared_ptr<const Replica> Pass::copied(const Packed& weights, at::Device device) const {
  const Packed there = Packed::like(weights.views, device);
  there.flat.copy_(weights.flat, /*non_blocking=*/true);
  const auto buffers = there.views.begin() + static_cast<std::ptrdiff_t>(net_.parameters.size());
  return prepared({{there.views.begin(), buffers}, {buffers, there.views.end()}, {}});
}

std::shared_ptr<const Replica> Pass::prepared(Replica r) const {
  const bool cpu = r.weights.empty() || r.weights[0].device().is_cpu();
  const Preparation preparation{net_, r.weights, cpu, keep_};
  for (const auto& s : net_.steps) r.prepared.push_back(s->prepare(preparation));
  return std::make_shared<const Replica>(std::move(r));
}

// In the order of all weights, with those left out that have no gradient.
void Pass::send_home(const std::vector<at::Tensor>& grads, const Packed& home) const {
  const auto first = std::find_if(grads.begin(), grads.end(), [](auto& g) { return g.defined(); });
  if (first == grads.end()) return;
  Packed here = Packed::like(replicas_[0]->weights, first->device());
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].defined()) here.views[i].zero_(), here.views[i] = at::Tensor();
  here.fill(grads);
  home.flat.copy_(here.flat, /*non_blocking=*/true);
}

// ---- the network's part of autograd -------------------------------------------------------------

namespace {

struct NetBackward final : torch::autograd::Node {
  std::shared_ptr<Pass> pass;
  std::string name() const override { return "NetBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    TORCH_CHECK(pass, "backward through a network a second time");
    return std::exchange(pass, nullptr)->backward(grads);
  }
  void release_variables() override { pass.reset(); }
};

}  // namespace

void Net::spread(std::vector<at::Device> devices) {
  spread_ = devices.size() > 1 ? std::make_shared<Spread>(std::move(devices)) : nullptr;
}

void Net::forget_copies() {
  if (spread_) spread_->keep({});
  if (!prepared_) prepared_ = std::make_shared<Prepared>();
  std::lock_guard lock(prepared_->mutex);
  prepared_->replica = nullptr;
}

// Keeps the tensors' identity, as torch's Module.to() does: whoever holds one sees it move.
void Net::move_to(const at::Device& device) {
  forget_copies();
  for (auto& p : parameters) p.tensor.set_data(p.tensor.detach().to(device));
  for (auto& b : buffers) b.tensor.set_data(b.tensor.to(device));
}

Net::Tensors Net::forward(const Tensors& x, std::size_t count, bool training, std::uint64_t key) {
  if (!parameters.empty() && parameters.front().tensor.device() != x[0].device())
    move_to(x[0].device());
  torch::autograd::variable_list all = x;
  for (const auto& p : parameters) all.push_back(p.tensor);
  const bool keep = at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(all);
  auto pass = std::make_shared<Pass>(*this, x, count, training, keep, key);
  Tensors y = pass->forward(x);
  if (keep) {
    auto node = std::shared_ptr<NetBackward>(new NetBackward, torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(all));
    node->pass = std::move(pass);
    for (auto& t : y) torch::autograd::set_history(t, node);
  }
  return y;
}

}  // namespace sluice
