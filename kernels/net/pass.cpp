#include "kernels/net/pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

#include "engine/base/error.h"
#include "kernels/base/team.h"
#include "kernels/net/prepared.h"

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

// Several lanes do the frames one after the other, each when the lane before it has done it. Who
// waits for a lane so waits for all lanes before it, on the devices too.
class LaneOrder {
 public:
  LaneOrder(int lanes, at::DeviceType type) : type_(type), done_(static_cast<std::size_t>(lanes)) {}
  // False: another lane has failed.
  bool wait(int lane, std::size_t frame) {
    if (lane == 0) return true;
    std::unique_lock lock(mutex_);
    const std::vector<StreamMark>& before = done_[lane - 1];
    moved_.wait(lock, [&] { return failed_ || before.size() > frame; });
    if (!failed_) before[frame].await();
    return !failed_;
  }
  void end(int lane) {
    std::lock_guard lock(mutex_);
    done_[lane].emplace_back(type_);
    moved_.notify_all();
  }
  void fail() {
    std::lock_guard lock(mutex_);
    failed_ = true;
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  const at::DeviceType type_;
  std::vector<std::vector<StreamMark>> done_;  // by lane, by frame
  bool failed_ = false;
};

static std::uint64_t version_of(const Net& net) {
  std::uint64_t version = 0;
  for (const auto& p : net.parameters) version += p.tensor._version();
  for (const auto& b : net.buffers) version += b.tensor._version();
  return version;
}

static std::vector<Step::Size> sizes_of(const Net::Tensors& x) {
  std::vector<Step::Size> sizes;
  for (const auto& t : x) sizes.push_back(t.sizes().vec());
  return sizes;
}

// Two threads would add to one gradient.
void Pass::check_lanes(const Net& net, const Stages& stages, int lanes) {
  std::vector<int> reader(net.parameters.size(), -1);
  const auto place = [&](int stage) { return place_of(stage, lanes, stages.size()); };
  for (int s = 0; s < stages.size(); ++s)
    for (const int n : stages.all[s].schedule.steps)
      for (const int p : net.steps[n]->parameters()) {
        if (reader[p] >= 0 && place(reader[p]) != place(s))
          throw Error(Exit::usage, "stages: " + net.parameters[p].name + " is read in the stages " +
                                       std::to_string(reader[p]) + " and " + std::to_string(s) +
                                       ", which are on different devices: cut elsewhere");
        reader[p] = s;
      }
}

const Stages& Pass::stages(const Net& net, const Schedule& schedule,
                           const std::vector<Step::Size>& of_inputs) {
  Parts& parts = net.prepared_->parts;
  if (!parts.cuts) parts.cuts = stage_cuts(net, of_inputs);
  parts.made.resize(net.schedules_.size());
  auto& made = parts.made[static_cast<std::size_t>(&schedule - net.schedules_.data())];
  if (!made) {
    auto all = std::make_shared<const Stages>(stages_of(net, schedule, *parts.cuts));
    if (net.spread_) check_lanes(net, *all, std::min(net.spread_->places.size(), all->size()));
    made = std::move(all);
  }
  return *made;
}

Pass::Pass(Net& net, const Tensors& x, std::size_t outputs, bool training, bool keep,
           std::uint64_t key)
    : net_(net),
      schedule_(net.schedule(outputs)),
      training_(training),
      keep_(keep),
      input_sizes_(sizes_of(x)),
      stages_(stages(net, schedule_, input_sizes_)) {
  const auto& sizes = net.sizes(input_sizes_);
  for (std::size_t i = 0; i < outputs; ++i)
    results_.push_back(room(sizes[net.outputs[i]], x[0].device()));
  cut(x[0]);
  replicas_.push_back(own());
  plan();
  timed_ = x[0].is_cpu();
  for (const auto& p : net.parameters)
    if (keep) versions_.push_back(static_cast<std::int64_t>(p.tensor._version()));
  if (keep) open_ = std::make_unique<OpenPass>(net.prepared_);
  frames_.resize(frame_count() * stages_.all.size());
  stores_.resize(frames_.size());
  for (std::size_t n = 0; n < frames_.size(); ++n) {
    Frame& f = frames_[n];
    const std::size_t i = n / stages_.all.size();
    f.net = &net;
    f.schedule = &stages_.all[n % stages_.all.size()].schedule;
    f.replica = replicas_[0].get();
    f.training = training;
    f.keep = keep;
    f.leads = lanes_ > 1 || !away(static_cast<int>(i));
    f.first_sample = bounds_[i];
    f.key = key;
  }
  std::vector<bool> needed;
  for (const at::Tensor& t : x) needed.push_back(t.requires_grad());
  for (const auto& p : net.parameters) needed.push_back(p.tensor.requires_grad());
  want(needed);
}

Pass::~Pass() = default;

void Pass::require_same_weights() const {
  for (std::size_t i = 0; i < versions_.size(); ++i)
    if (const auto& p = net_.parameters[i]; p.tensor._version() != versions_[i])
      throw Error(Exit::usage,
                  "a backward pass goes through a network whose weights (" + p.name +
                      " for one) were changed after its forward pass: let the node that changes "
                      "them stand behind this updater, or a model of that network between them");
}

// Passes that need no gradients share one until the weights change.
std::shared_ptr<const Replica> Pass::own() {
  const auto made = [this] {
    Replica own;
    for (const auto& q : net_.parameters) own.weights.push_back(q.tensor.detach());
    for (const auto& b : net_.buffers) own.buffers.push_back(b.tensor);
    return prepared(std::move(own), 0);
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

// By input, then by parameter: whose gradient is needed. A value's is where one of these has a part
// in it.
void Pass::want(const std::vector<bool>& needed) {
  const auto parameters = needed.begin() + std::ssize(input_sizes_);
  const std::vector<bool> trains(parameters, needed.end());
  std::vector<bool> wants(needed.begin(), parameters);
  wants.resize(static_cast<std::size_t>(net_.values), false);
  for (const auto& s : net_.steps) {
    bool any = false;
    for (const int p : s->parameters()) any = any || trains[p];
    for (const int v : s->inputs) any = any || wants[v];
    wants[s->output] = any;
  }
  for (Frame& f : frames_) {
    f.wants = wants;
    f.trains = trains;
  }
}

// Whether the batch does so little with many weights that threads with samples of their own would
// mostly read them, and add up gradients of them, each for itself: a transformer of few tokens.
bool Pass::is_mostly_weights() const {
  constexpr std::int64_t many = 1 << 22;  // more than a core's cache holds
  constexpr double few = 512;             // multiply-adds of a weight
  std::int64_t weights = 0;
  for (const auto& p : net_.parameters) weights += p.tensor.numel();
  if (weights < many) return false;
  double multiply_adds = 0;
  for (const Step::Product& p : net_.products()) multiply_adds += p.multiply_adds;
  multiply_adds *= static_cast<double>(input_sizes_[0][0]);
  return multiply_adds < few * static_cast<double>(weights);
}

// One frame for all samples where they depend on each other or are quicker at once; else
// frames of about 2^16 voxels, by the shape alone, and a fixed share of them for every thread; few
// that remain are done by all threads together, which would else wait for the one that has them.
// Where several devices share the batch, one frame for each. Stages on devices have the frames of
// one thread, and add up gradients as it does.
void Pass::cut(const at::Tensor& x) {
  const std::int64_t n = x.size(0), voxels = x.numel() / std::max<std::int64_t>(1, n * x.size(1));
  const bool is_home = net_.spread_ && net_.spread_->places.device(0) == x.device();
  if (is_home && stages_.size() > 1) {
    spread_ = net_.spread_;
    lanes_ = std::min(spread_->places.size(), stages_.size());
  } else if (is_home && n > 1) {
    spread_ = net_.spread_;
    bounds_ = spread_->places.bounds(n);
    threads_ = static_cast<int>(bounds_.size()) - 1;
    alone_ = frame_count();
    return;
  }
  const bool together = (net_.mixes_samples_ && training_) || (keep_ && is_mostly_weights());
  std::int64_t count = 1;
  if (!together && x.device().is_cpu() && n > 1) {
    const std::int64_t each = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, voxels));
    // Fewer samples than half of the threads: these share the work within a step instead.
    const std::int64_t team = lanes_ > 1 ? 1 : team_size();
    if (2 * n > team) threads_ = static_cast<int>(std::min<std::int64_t>(n, team));
    count = std::max<std::int64_t>(threads_, (n + each - 1) / each);
  }
  std::int64_t rest = count % threads_;
  if (2 * rest > threads_) rest = 0;
  if (const int chunks = net_.prepared_->parts.division.chunks; training_ && chunks > 0) {
    count = std::min<std::int64_t>(chunks, n);
    threads_ = static_cast<int>(std::min<std::int64_t>(threads_, count));
    rest = 0;
  }
  for (std::int64_t i = 0; i <= count; ++i) bounds_.push_back(n * i / count);
  alone_ = static_cast<std::size_t>(count - rest);
}

// Of a frame of the largest part.
void Pass::plan() {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < frame_count(); ++i)
    most = std::max(most, bounds_[i + 1] - bounds_[i]);
  std::vector<Step::Size> frame = input_sizes_;
  for (auto& size : frame) size[0] = most;
  const FrameCount count{static_cast<std::int64_t>(frame_count()), threads_};
  if (!keep_) {
    net_.window_ = {&schedule_, std::move(frame), count, nullptr};
    return;
  }
  plan_ = net_.plan_for(schedule_, frame, count);
  for (const NetStage& stage : stages_.all)
    retained_.push_back(plan_ ? retained_values(net_, stage.schedule, plan_->again)
                              : stage.schedule.kept);
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
Pass::Tensors Pass::parts(const Tensors& all, std::size_t i) const {
  Tensors mine;
  for (const auto& t : all) mine.push_back(t.defined() ? part(t, i) : at::Tensor());
  return mine;
}
at::Tensor Pass::to_compute(const at::Tensor& t) const { return net_.laid_out(t.to(net_.compute)); }

// body(thread, frame) for every frame on its thread, in order; before and after a thread's share
// begin(thread) and end(thread).
template <class Begin, class Body, class End>
void Pass::each_frame(const Begin& begin, const Body& body, const End& end) {
  const auto share = [&](int t) {
    at::NoGradGuard no_grad;
    begin(t);
    for (std::size_t i = first_of(t); i < first_of(t + 1); ++i) body(t, i);
    end(t);
  };
  spread_ ? spread_->places.run(threads_, share) : team_run(threads_, share);
  at::NoGradGuard no_grad;
  for (std::size_t i = alone_; i < frame_count(); ++i) body(0, i);
}

// body(thread, frame, stage) for every stage of every frame. Lane 0 is the one that begins: the
// first place's forward, the last one's backward.
template <class Begin, class Body, class End>
void Pass::each_part(Way way, const Begin& begin, const Body& body, const End& end) {
  const int count = stages_.size();
  const auto in_order = [&](int first, int last, const auto& stage) {
    if (way == Way::forward)
      for (int s = first; s < last; ++s) stage(s);
    else
      for (int s = last - 1; s >= first; --s) stage(s);
  };
  if (lanes_ == 1)
    return each_frame(
        begin, [&](int t, std::size_t i) { in_order(0, count, [&](int s) { body(t, i, s); }); },
        end);
  LaneOrder order(lanes_, results_[0].device().type());
  const auto since = Costs::Clock::now();
  const auto elapsed = [](Costs::Clock::time_point from) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Costs::Clock::now() - from).count();
  };
  const auto share = [&](int place) {
    at::NoGradGuard no_grad;
    const int lane = way == Way::forward ? place : lanes_ - 1 - place;
    const int first = count * place / lanes_, last = count * (place + 1) / lanes_;
    try {
      begin(place);
      for (std::size_t i = 0; i < frame_count(); ++i) {
        if (!order.wait(lane, i)) return;
        const auto begun = Costs::Clock::now();
        in_order(first, last, [&](int s) { body(place, i, s); });
        net_.prepared_->parts.busy += elapsed(begun);
        order.end(lane);
      }
      end(place);
    } catch (...) {
      order.fail();
      throw;
    }
  };
  using Order = Places::Order;
  spread_->places.run(lanes_, share, way == Way::forward ? Order::from_first : Order::from_last);
  if (timed_) net_.prepared_->parts.whole += lanes_ * elapsed(since);
}

Pass::Tensors Pass::forward(const Tensors& x) {
  at::NoGradGuard no_grad;
  Tensors input;
  for (const auto& t : x) input.push_back(t.detach());
  const std::vector<Packed> weights = spread_ ? packed() : std::vector<Packed>();
  const auto begin = [&](int t) {
    if (away(t) && !replicas_[t]) replicas_[t] = copied(weights[t], t);
  };
  const auto body = [&](int t, std::size_t i, int stage) {
    Frame& f = frame(i, stage);
    if (away(t)) f.replica = replicas_[t].get();
    const auto sends = [&](std::size_t k) { return away(t) && is_made_in(net_.outputs[k], stage); };
    const Tensors home = parts(results_, i);
    for (std::size_t k = 0; k < home.size(); ++k)
      f.results.push_back(sends(k) ? at::empty_like(home[k], place(t)) : home[k]);
    const Tensors made = f.results;
    take_values(i, stage, t, parts(input, i));
    forward_frame(f, stage);
    for (std::size_t k = 0; k < home.size(); ++k)
      if (sends(k)) home[k].copy_(made[k], /*non_blocking=*/true);
  };
  const auto end = [&](int t) {
    if (away(t) && lanes_ > 1 && training_) send_statistics(t);
  };
  each_part(Way::forward, begin, body, end);
  if (timed_) net_.costs_->end_forward(x[0].size(0));
  if (timed_ && keep_ && net_.costs_->counts_kept()) net_.costs_->end_counting(x[0].size(0));
  if (spread_ && may_keep_copies()) {
    Replicas copies = replicas_;
    copies[0] = nullptr;
    spread_->keep(std::move(copies));
  }
  return results_;
}

// From the stages that made them; an input from the first that reads it, which has it from the
// caller. Whoever has no more readers after this one and does not keep it lets go of it.
void Pass::take_values(std::size_t i, int stage, int t, const Tensors& x) {
  Frame& f = frame(i, stage);
  f.values.resize(net_.values);
  for (const int v : stages_.all[stage].in) {
    const int from = stages_.at[v].front();
    if (from == stage) {
      // Numbers of samples, such as times and classes, need all their digits.
      const at::Tensor mine = brought(x[v], t);
      f.values[v] = mine.dim() > 1 ? to_compute(mine) : mine;
      continue;
    }
    at::Tensor& there = frame(i, from).values[v];
    f.values[v] = crosses(from, stage) ? taken_over(there, place(t)) : there;
    if (stages_.is_last(v, stage) && !(keep_ && retained_[from][v])) there = at::Tensor();
  }
}

void Pass::forward_frame(Frame& f, int stage) {
  f.saved.resize(net_.steps.size());
  const Schedule& schedule = *f.schedule;
  for (const int n : schedule.steps) {
    const Step& s = *net_.steps[n];
    const auto since = Costs::Clock::now();
    run(s, f);
    if (timed_) net_.costs_->add_forward(n, since);
    if (keep_ && drops_saved(s)) f.saved[n].clear();
    for (const int v : s.inputs)
      if (schedule.last_use[v] == n) let_go(v, f, stage);
  }
  if (timed_ && keep_ && net_.costs_->counts_kept()) count_kept(f, stage);
  for (std::size_t i = 0; i < f.results.size(); ++i) {
    const at::Tensor& y = f.values[net_.outputs[i]];
    if (is_made_in(net_.outputs[i], stage) && !y.is_same(f.results[i])) f.results[i].copy_(y);
  }
  for (std::size_t i = 0; i < f.results.size(); ++i)
    if (const int v = net_.outputs[i]; is_made_in(v, stage) && !stays(v, stage))
      f.values[v] = at::Tensor();
  f.results.clear();
}

void Pass::run(const Step& s, Frame& f) const {
  f.values[s.output] = s.forward(f);
  if (net_.observer) net_.observer(s, f);
}

// ---- what the memory plan lets go of ------------------------------------------------------------

// After its last reader of the forward pass.
void Pass::let_go(int value, Frame& f, int stage) {
  at::Tensor& t = f.values[value];
  const bool stays_there = stays(value, stage);
  if (stays_there && !(t.defined() && plan_ && plan_->goes_away(value))) return;
  if (stays_there)
    store_of(f).put(value, std::exchange(t, at::Tensor()));
  else
    t = at::Tensor();
}

void Pass::bring_back(std::size_t i, Frame& f) {
  if (!plan_ || plan_->away.empty()) return;
  HostStore& store = store_of(f);
  const auto& steps = f.schedule->steps;
  for (std::size_t j = i; j < std::min(i + 1 + MemoryPlan::ahead, steps.size()); ++j) {
    const Step& s = *net_.steps[steps[steps.size() - 1 - j]];
    s.each_kept([&](int v) {
      if (store.holds(v)) f.values[v] = store.fetch(v);
      if (j == i) store.await(v);
    });
  }
}

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
  s.each_kept([&](int v) {
    if (!f.values[v].defined()) make_again(makers_[v], f);
  });
}

// What a step made or saved for the backward pass; what several hold is the first one's.
void Pass::count_kept(const Frame& f, int stage) const {
  std::set<const void*> seen;
  const auto bytes = [&](const at::Tensor& t) -> std::int64_t {
    if (!t.defined() || !seen.insert(t.storage().data()).second) return 0;
    return static_cast<std::int64_t>(t.storage().nbytes());
  };
  for (const int v : stages_.all[stage].in) bytes(f.values[v]);
  for (const auto& weight : f.replica->weights) bytes(weight);
  for (const int n : f.schedule->steps) {
    const Step& s = *net_.steps[n];
    std::int64_t sum = retained_[stage][s.output] ? bytes(f.values[s.output]) : 0;
    for (const auto& t : f.saved[n]) sum += bytes(t);
    net_.costs_->add_kept(n, sum);
  }
}

Pass::Tensors Pass::backward(const Tensors& grads, const std::vector<bool>& needed) {
  want(needed);
  parameter_grads_.assign(workers(), std::vector<at::Tensor>(net_.parameters.size()));
  const at::Device device = results_[0].device();
  listen();
  std::vector<Packed> sums(workers());  // of other places, on the first
  for (int t = 1; t < workers() && spread_; ++t)
    sums[t] = Packed::like(replicas_[t]->weights, device);
  Tensors out(input_sizes_.size());
  for (std::size_t k = 0; k < out.size(); ++k)
    if (frames_[0].wants[k]) out[k] = room(input_sizes_[k], device);
  for (std::size_t k = 0; k < out.size(); ++k)
    if (out[k].defined() && stages_.at[k].empty()) out[k].zero_();
  const auto body = [&](int t, std::size_t i, int stage) {
    frame(i, stage).parameter_grads = &parameter_grads_[t];
    take_grads(i, stage);
    backward_frame(i, stage, t, parts(grads, i));
    hand_back_grads(i, stage, out);
  };
  const auto end = [&](int t) {
    if (away(t)) send_grads(t, sums[t]);
  };
  each_part(
      Way::backward, [](int) {}, body, end);
  if (timed_) net_.costs_->end_backward(input_sizes_[0][0]);
  // What no output that has a gradient needs, has none either, in no frame. Of what one lane alone
  // reads its sum is the gradient.
  Tensors to, from;
  for (int t = 1; t < workers() && !ready_; ++t) {
    to.clear();
    from.clear();
    for (std::size_t p = 0; p < net_.parameters.size(); ++p) {
      if (!parameter_grads_[t][p].defined()) continue;
      const at::Tensor& its = spread_ ? sums[t].views[p] : parameter_grads_[t][p];
      at::Tensor& sum = parameter_grads_[0][p];
      if (!sum.defined()) {
        sum = its;
        continue;
      }
      to.push_back(sum);
      from.push_back(its);
    }
    if (!to.empty()) at::_foreach_add_(to, from);
  }
  for (at::Tensor& grad : parameter_grads_[0]) out.push_back(std::move(grad));
  return out;
}

// What later stages have handed back, where another place holds it.
void Pass::take_grads(std::size_t i, int stage) {
  if (lanes_ == 1) return;
  std::vector<at::Tensor>& grads = frame(i, stage).grads;
  for (std::size_t v = 0; v < grads.size(); ++v)
    if (grads[v].defined() && crosses(stages_.after(static_cast<int>(v), stage), stage))
      grads[v] = taken_over(grads[v], place(place_of(stage)));
}

// To the stage before that has a part in the value, which adds its own; of an input to the caller.
void Pass::hand_back_grads(std::size_t i, int stage, const Tensors& out) {
  Frame& f = frame(i, stage);
  for (const int v : stages_.all[stage].in) {
    const int to = stages_.before(v, stage);
    at::Tensor grad = std::move(f.grads[v]);
    if (to < 0) {
      if (out[v].defined())
        grad.defined() ? part(out[v], i).copy_(grad, true) : part(out[v], i).zero_();
      continue;
    }
    if (!grad.defined()) continue;
    Frame& there = frame(i, to);
    there.grads.resize(net_.values);
    there.grads[v] = std::move(grad);
  }
}

// The gradient of an output begins where the output is read last.
void Pass::backward_frame(std::size_t frame, int stage, int t, const Tensors& grads) {
  Frame& f = this->frame(frame, stage);
  f.grads.resize(net_.values);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const auto& at = stages_.at[net_.outputs[i]];
    if (!grads[i].defined() || (at.empty() ? 0 : at.back()) != stage) continue;
    at::Tensor& sum = f.grads[net_.outputs[i]];
    const at::Tensor g = to_compute(brought(grads[i], t));
    sum = sum.defined() ? sum + g : g;
  }
  const auto& steps = f.schedule->steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const int n = steps[steps.size() - 1 - i];
    const Step& s = *net_.steps[n];
    const at::Tensor g = f.grads[s.output];
    const auto since = Costs::Clock::now();
    bring_back(i, f);
    if (g.defined() && f.wants[s.output]) {
      prepare_backward(s, f);
      s.backward(f, g);
      if (timed_) net_.costs_->add_backward(n, since);
      if (net_.observer) net_.observer(s, f);
    }
    f.grads[s.output] = at::Tensor();
    f.values[s.output] = at::Tensor();
    f.saved[s.number].clear();
    if (ready_ && is_last_of(t, frame)) pass_step(n);
  }
  f.values.clear();
  store_of(f).clear();
}

// ---- on other devices ---------------------------------------------------------------------------

at::Device Pass::place(int thread) const { return spread_->places.device(thread); }
at::Tensor Pass::brought(const at::Tensor& t, int thread) const {
  return away(thread) ? copied_to(t, place(thread)) : t;
}

// What those places read that have no copy of it. Places that share a batch read the same.
std::vector<Packed> Pass::packed() {
  auto own = replicas_[0];
  if (!may_keep_copies()) spread_->keep({});
  replicas_ = spread_->kept(version_of(net_));
  replicas_[0] = std::move(own);
  std::vector<Packed> all(workers());
  for (int t = 1; t < workers(); ++t) {
    if (replicas_[t]) continue;
    all[t] = all[t - 1];
    if (lanes_ == 1 && all[t].flat.defined()) continue;
    const std::vector<at::Tensor> read = read_by(t);
    all[t] = Packed::like(read, place(0));
    all[t].fill(read);
  }
  return all;
}

// Weights, then buffers in float32; undefined: no step of the place reads it.
std::vector<at::Tensor> Pass::read_by(int t) const {
  const auto &weights = replicas_[0]->weights, &buffers = replicas_[0]->buffers;
  std::vector<at::Tensor> all(weights.size() + buffers.size());
  for (const auto& s : net_.steps) {
    if (!is_done_by(*s, t)) continue;
    for (const int p : s->parameters()) all[p] = weights[p];
    for (const int b : s->buffers())
      if (buffers[b].scalar_type() == at::kFloat) all[weights.size() + b] = buffers[b];
  }
  return all;
}

std::shared_ptr<const Replica> Pass::copied(const Packed& weights, int t) const {
  const Packed there = Packed::like(weights.views, place(t));
  there.flat.copy_(weights.flat, /*non_blocking=*/true);
  const auto buffers = there.views.begin() + static_cast<std::ptrdiff_t>(net_.parameters.size());
  Replica r{{there.views.begin(), buffers}, {buffers, there.views.end()}, {}};
  for (std::size_t b = 0; b < r.buffers.size(); ++b)
    if (const at::Tensor& own = replicas_[0]->buffers[b]; own.scalar_type() != at::kFloat)
      r.buffers[b] = own;
  return prepared(std::move(r), t);
}

std::shared_ptr<const Replica> Pass::prepared(Replica r, int t) const {
  const bool cpu = results_[0].is_cpu();
  const Preparation preparation{net_,
                                r.weights,
                                r.buffers,
                                net_.sizes(input_sizes_),
                                cpu,
                                keep_,
                                (spread_ && lanes_ == 1) || frame_count() == 1};
  for (const auto& s : net_.steps)
    r.prepared.push_back(is_done_by(*s, t) ? s->prepare(preparation) : nullptr);
  return std::make_shared<const Replica>(std::move(r));
}

// As the place's steps have left them.
void Pass::send_statistics(int t) const {
  const auto &home = replicas_[0]->buffers, &here = replicas_[t]->buffers;
  for (std::size_t b = 0; b < home.size(); ++b)
    if (here[b].defined() && !here[b].is_same(home[b]))
      home[b].copy_(here[b], /*non_blocking=*/true);
}

// In the order of the place's weights; zeros for those that have no gradient.
void Pass::send_grads(int t, const Packed& home) const {
  const std::vector<at::Tensor>& grads = parameter_grads_[t];
  if (std::none_of(grads.begin(), grads.end(), [](auto& g) { return g.defined(); })) return;
  Packed here = Packed::like(replicas_[t]->weights, place(t));
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (at::Tensor& view = here.views[i]; view.defined() && !grads[i].defined())
      std::exchange(view, at::Tensor()).zero_();
  here.fill(grads);
  home.flat.copy_(here.flat, /*non_blocking=*/true);
}

// ---- gradients as they are whole
// -----------------------------------------------------------------

static thread_local const ReadyScope::Tell* listener = nullptr;

ReadyScope::ReadyScope(Tell tell) : tell_(std::move(tell)), before_(listener) { listener = &tell_; }
ReadyScope::~ReadyScope() { listener = before_; }
const ReadyScope::Tell* ReadyScope::current() { return listener; }

// Other devices send theirs at the end, and lanes have frames in turn.
void Pass::listen() {
  ready_ = spread_ || lanes_ > 1 || !open_ || !open_->is_alone() ? nullptr : ReadyScope::current();
  if (!ready_) return;
  last_of_.resize(net_.steps.size());
  std::vector<bool> seen(net_.parameters.size(), false);
  for (const int n : schedule_.steps)
    for (const int p : net_.steps[n]->parameters()) {
      if (!seen[p]) last_of_[n].push_back(p);
      seen[p] = true;
    }
  arrived_ = std::vector<std::atomic<int>>(net_.parameters.size());
}

// A thread's last frame is done with the step.
void Pass::pass_step(int step) {
  for (const int p : last_of_[step]) {
    if (++arrived_[p] < threads_) continue;
    at::Tensor& sum = parameter_grads_[0][p];
    for (int t = 1; t < threads_ && sum.defined(); ++t) sum.add_(parameter_grads_[t][p]);
    (*ready_)(net_.parameters[p].tensor, sum);
  }
}

// ---- the network's part of autograd -------------------------------------------------------------

namespace {

struct NetBackward final : torch::autograd::Node {
  std::shared_ptr<Pass> pass;
  std::string name() const override { return "NetBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    TORCH_CHECK(pass, "backward through a network a second time");
    pass->require_same_weights();
    // An optimizer of another network asks for the inputs' alone.
    std::vector<bool> needed;
    for (std::uint32_t i = 0; i < num_outputs(); ++i)
      needed.push_back(task_should_compute_output(i));
    return std::exchange(pass, nullptr)->backward(grads, needed);
  }
  void release_variables() override { pass.reset(); }
};

}  // namespace

void Net::spread(std::vector<at::Device> devices) {
  forget_copies();
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
