#include "kernels/net/memory_plan.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>

#include "engine/base/error.h"
#include "kernels/net/conv_step.h"
#include "kernels/net/net.h"
#include "kernels/net/stages.h"

namespace sluice {
namespace {

std::int64_t numbers(const Step::Size& size) {
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>());
}

// A pass is played with sizes for tensors.
class Rehearsal {
 public:
  // `in` and `out`: what a stage is given and what it gives; of a whole network nothing but inputs.
  Rehearsal(const Net& net, const Schedule& schedule, const std::vector<Step::Size>& sizes,
            std::vector<int> in, std::vector<int> out)
      : net_(net),
        schedule_(schedule),
        in_(std::move(in)),
        out_(std::move(out)),
        makers_(sizes.size(), -1) {
    bytes_ = bytes_of(net, sizes);
    const auto outputs = std::min(net.outputs.size(), net.output_count());
    for (std::size_t i = 0; i < outputs; ++i)
      if (schedule.last_use[net.outputs[i]] < 0) bytes_[net.outputs[i]] = 0;  // not counted
    costs_.resize(net.steps.size());
    saved_.resize(net.steps.size());
    for (const int n : schedule.steps) {
      const Step& s = *net.steps[n];
      makers_[s.output] = n;
      costs_[n] = step_cost(s, sizes);
      whole_ += costs_[n];
      saved_[n] = s.saved_bytes(sizes[s.output]);
    }
  }

  // Which `again` and `away` are given.
  MemoryPlan play(MemoryPlan asked) {
    begin(std::move(asked), /*keep=*/true);
    for (const int n : schedule_.steps) forward(n, true);
    end_forward();
    plan_.kept = live_;
    for (const int v : out_) grads_[v] = make(bytes_[v]);  // later stages'
    const std::vector<int> steps(schedule_.steps.rbegin(), schedule_.steps.rend());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = i; j < std::min(i + 1 + MemoryPlan::ahead, steps.size()); ++j)
        bring_back(*net_.steps[steps[j]]);
      backward(steps[i]);
    }
    plan_.peak = peak_;
    plan_.forward_again = cost_again_ / whole_;
    return std::move(plan_);
  }
  MemoryPlan play(std::vector<bool> again) {
    MemoryPlan plan;
    plan.again = std::move(again);
    return play(std::move(plan));
  }

  std::int64_t play_forward() {
    begin({std::vector<bool>(net_.steps.size())}, /*keep=*/false);
    for (const int n : schedule_.steps) forward(n, true);
    return peak_;
  }

  // By value: the steps between its last reader forward and its first reader backward; 0: it stays
  // whatever the plan says, since a step's own record holds it or it comes from outside.
  std::vector<std::size_t> unused() const {
    const std::size_t count = schedule_.steps.size();
    std::vector<std::size_t> last(bytes_.size(), count), reader(bytes_.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
      const Step& s = *net_.steps[schedule_.steps[i]];
      for (const int v : s.inputs) last[v] = i;
      s.each_kept([&](int v) { reader[v] = i; });
    }
    std::vector<std::size_t> all(bytes_.size(), 0);
    for (std::size_t v = 0; v < all.size(); ++v)
      if (schedule_.kept[v] && last[v] < count) all[v] = 2 * count - 1 - reader[v] - last[v];
    const auto stay = [&](const std::vector<int>& values) {
      for (const int v : values) all[v] = 0;
    };
    for (int v = 0; v < net_.inputs; ++v) all[v] = 0;
    stay(net_.outputs);
    for (const int n : schedule_.steps)
      if (const Step& s = *net_.steps[n]; s.records()) stay(s.inputs), stay({s.output});
    return all;
  }

  // Nothing but numbers are moved, and what it saves is small.
  bool is_cheap(int n) const {
    const Step& s = *net_.steps[n];
    return !s.records() && saved_[n] == 0 && costs_[n] < 100.0 * amount(s.output);
  }
  double cost(int n) const { return costs_[n]; }
  std::int64_t bytes(int value) const { return bytes_[value]; }

 private:
  double amount(int value) const {
    return static_cast<double>(bytes_[value]) / static_cast<double>(c10::elementSize(net_.compute));
  }

  // ---- tensors by number ----
  int make(std::int64_t bytes) {
    tensors_.push_back({bytes, 1});
    live_ += bytes;
    return static_cast<int>(tensors_.size()) - 1;
  }
  int hold(int t) {
    if (t >= 0) ++tensors_[t].holders;
    return t;
  }
  void drop(int& t) {
    if (t >= 0 && --tensors_[t].holders == 0) live_ -= tensors_[t].bytes;
    t = -1;
  }
  void look() { peak_ = std::max(peak_, live_); }

  void begin(MemoryPlan asked, bool keep) {
    tensors_.clear();
    live_ = peak_ = 0;
    cost_again_ = 0;
    keep_ = keep;
    plan_ = std::move(asked);
    plan_.moved = 0;
    values_.assign(bytes_.size(), -1);
    grads_.assign(bytes_.size(), -1);
    held_.assign(net_.steps.size(), {});
    has_saved_.assign(net_.steps.size(), false);
    retained_ = retained_values(net_, schedule_, plan_.again);
    for (const int v : in_) values_[v] = make(bytes_[v]);
  }

  void run(int n) {
    const Step& s = *net_.steps[n];
    drop(values_[s.output]);
    values_[s.output] = make(bytes_[s.output]);
    if (keep_) save(n);
    look();
  }

  void save(int n) {
    const Step& s = *net_.steps[n];
    forget_saved(n);
    if (s.records()) {
      for (const int v : s.inputs) held_[n].push_back(hold(values_[v]));
      held_[n].push_back(hold(values_[s.output]));
    }
    if (saved_[n] > 0) held_[n].push_back(make(saved_[n]));
    has_saved_[n] = true;
  }
  void forget_saved(int n) {
    for (int& t : held_[n]) drop(t);
    held_[n].clear();
    has_saved_[n] = false;
  }
  bool drops_saved(int n) const {
    return plan_.again[n] && (net_.steps[n]->records() || saved_[n] > 0);
  }

  void forward(int n, bool first) {
    run(n);
    if (!first) {
      cost_again_ += costs_[n];
      return;
    }
    if (keep_ && drops_saved(n)) forget_saved(n);
    for (const int v : net_.steps[n]->inputs)
      if (schedule_.last_use[v] == n && values_[v] >= 0) let_go(v);
  }
  void let_go(int v) {
    const bool goes = keep_ && retained_[v] && plan_.goes_away(v);
    if (goes) plan_.moved += bytes_[v];
    if (goes || !(keep_ && retained_[v])) drop(values_[v]);
  }
  void bring_back(const Step& s) {
    s.each_kept([&](int v) {
      if (plan_.goes_away(v) && values_[v] < 0) values_[v] = make(bytes_[v]);
    });
  }
  void end_forward() {
    for (const auto& given : {net_.outputs, out_})
      for (const int v : given)
        if (!retained_[v]) drop(values_[v]);
  }

  void want(int v) {
    if (values_[v] < 0) rerun(makers_[v]);
  }
  void rerun(int n) {
    for (const int v : net_.steps[n]->inputs) want(v);
    forward(n, false);
  }

  // A direct convolution adds what is there already as it writes its own.
  bool sums_itself(const Step& s, std::size_t input) const {
    const auto* conv = dynamic_cast<const ConvStep*>(&s);
    return conv && input == 0 && net_.channels_last && products_for(net_.compute) &&
           has_direct_conv(conv->spec, net_.compute);
  }

  void add_grad(int v, int grad, bool summed) {
    if (v < net_.inputs) return drop(grad);
    if (grads_[v] < 0 || summed) {
      look();
      drop(grads_[v]);
      grads_[v] = grad;
      return;
    }
    int sum = make(bytes_[v]);
    look();
    drop(grads_[v]);
    drop(grad);
    grads_[v] = sum;
  }

  void backward(int n) {
    const Step& s = *net_.steps[n];
    if (!has_saved_[n]) rerun(n);
    s.each_kept([&](int v) { want(v); });
    int grad = std::exchange(grads_[s.output], -1);
    if (grad < 0) grad = make(bytes_[s.output]);  // the loss's
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      add_grad(s.inputs[i], s.shares_grad(i) ? hold(grad) : make(bytes_[s.inputs[i]]),
               sums_itself(s, i));
    look();
    drop(grad);
    drop(values_[s.output]);
    forget_saved(n);
  }

  struct Played {
    std::int64_t bytes;
    int holders;
  };
  const Net& net_;
  const Schedule& schedule_;
  const std::vector<int> in_, out_;
  std::vector<int> makers_;          // by value: the step
  std::vector<std::int64_t> bytes_;  // by value
  std::vector<double> costs_;        // by step
  std::vector<std::int64_t> saved_;  // by step
  double whole_ = 0, cost_again_ = 0;
  std::vector<Played> tensors_;
  std::vector<int> values_, grads_;
  std::vector<std::vector<int>> held_;  // by step
  MemoryPlan plan_;                     // the one that is played
  std::vector<bool> has_saved_, retained_;
  std::int64_t live_ = 0, peak_ = 0;
  bool keep_ = false;
};

std::vector<int> all_inputs(const Net& net) {
  std::vector<int> all(static_cast<std::size_t>(net.inputs));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
Rehearsal whole(const Net& net, const Schedule& schedule, const std::vector<Step::Size>& sizes) {
  return {net, schedule, sizes, all_inputs(net), {}};
}

// Searches for what to make again.
class Search {
 public:
  Search(const Net& net, const Schedule& schedule, const std::vector<Step::Size>& sizes,
         FrameCount count)
      : net_(net), schedule_(schedule), rehearsal_(whole(net, schedule, sizes)), count_(count) {}

  MemoryPlan everything_kept() { return rehearsal_.play(none()); }

  // What a pass over a value that is there anyway gives: norms and activations; and of
  // concatenations those without which the peak is lower.
  MemoryPlan light() {
    std::vector<bool> again = none();
    for (const int n : schedule_.steps) {
      const auto& from = net_.steps[n]->inputs;
      again[n] = rehearsal_.is_cheap(n) && from.size() == 1 && schedule_.kept[from[0]];
    }
    MemoryPlan plan = rehearsal_.play(again);
    for (const int n : schedule_.steps) {
      if (plan.again[n] || !rehearsal_.is_cheap(n)) continue;
      again = plan.again;
      again[n] = true;
      take_better(plan, rehearsal_.play(again));
    }
    return plan;
  }

  // Norms, activations and concatenations.
  MemoryPlan cheap() {
    std::vector<bool> again = none();
    for (const int n : schedule_.steps) again[n] = rehearsal_.is_cheap(n);
    return rehearsal_.play(again);
  }

  // Segments of about equal size, of which the first values are kept; the least of many sizes.
  MemoryPlan segments() {
    std::int64_t all = 0, largest = 1;
    for (const int n : schedule_.steps) {
      const std::int64_t bytes = rehearsal_.bytes(net_.steps[n]->output);
      all += bytes;
      largest = std::max(largest, bytes);
    }
    MemoryPlan best = cheap();
    for (double most = static_cast<double>(largest); most < static_cast<double>(all);
         most *= 1.15) {
      std::vector<bool> again = none();
      double since = 0;
      for (const int n : schedule_.steps) {
        since += static_cast<double>(rehearsal_.bytes(net_.steps[n]->output));
        again[n] = since <= most;
        if (!again[n]) since = 0;
      }
      take_better(best, rehearsal_.play(again));
    }
    for (const int n : order()) {
      std::vector<bool> again = best.again;
      again[n] = !again[n];
      take_better(best, rehearsal_.play(again));
    }
    return best;
  }

  // Values wait on the host, the longest unused first, as long as that makes the peak lower.
  MemoryPlan offloaded() {
    const std::vector<std::size_t> unused = rehearsal_.unused();
    MemoryPlan plan;
    plan.again = none();
    std::vector<int> going;
    for (std::size_t v = 0; v < unused.size(); ++v) {
      plan.away.push_back(unused[v] > MemoryPlan::ahead);
      if (plan.away.back()) going.push_back(static_cast<int>(v));
    }
    plan = rehearsal_.play(std::move(plan));
    std::stable_sort(going.begin(), going.end(),
                     [&](int a, int b) { return unused[a] < unused[b]; });
    if (going.size() > most_tries) going.resize(most_tries);
    for (const int v : going) {
      MemoryPlan stays = plan;
      stays.away[v] = false;
      stays = rehearsal_.play(std::move(stays));
      if (bytes(stays) <= bytes(plan)) plan = std::move(stays);
    }
    return plan;
  }

  // The same with as little made again as the limit has room for.
  MemoryPlan cheaper(MemoryPlan plan, std::int64_t limit) {
    for (const int n : order()) {
      if (!plan.again[n]) continue;
      std::vector<bool> again = plan.again;
      again[n] = false;
      MemoryPlan other = rehearsal_.play(again);
      if (count_.bytes(other) <= limit && other.forward_again <= plan.forward_again)
        plan = std::move(other);
    }
    return plan;
  }

  std::int64_t bytes(const MemoryPlan& plan) const { return count_.bytes(plan); }

 private:
  std::vector<bool> none() const { return std::vector<bool>(net_.steps.size()); }
  void take_better(MemoryPlan& best, MemoryPlan other) const {
    const auto a = count_.bytes(other), b = count_.bytes(best);
    if (a < b || (a == b && other.forward_again < best.forward_again)) best = std::move(other);
  }
  static constexpr std::size_t most_tries = 300;  // as far as this takes no time to be noticed
  // The dearest steps first.
  std::vector<int> order() const {
    std::vector<int> all = schedule_.steps;
    std::stable_sort(all.begin(), all.end(),
                     [&](int a, int b) { return rehearsal_.cost(a) > rehearsal_.cost(b); });
    if (all.size() > most_tries) all.resize(most_tries);
    return all;
  }

  const Net& net_;
  const Schedule& schedule_;
  Rehearsal rehearsal_;
  FrameCount count_;
};

}  // namespace

double step_cost(const Step& step, const std::vector<Step::Size>& sizes) {
  return step.product(sizes[step.inputs[0]]).multiply_adds +
         80.0 * static_cast<double>(numbers(sizes[step.output]));
}

std::string bytes_text(std::int64_t bytes) {
  static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto n = static_cast<double>(bytes);
  int unit = 0;
  while (n >= 1024 && unit < 4) n /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", n, units[unit]);
  return text;
}

std::vector<bool> retained_values(const Net& net, const Schedule& schedule,
                                  const std::vector<bool>& again) {
  std::vector<bool> retained = schedule.kept;
  for (const int n : schedule.steps)
    if (again[n])
      for (const int v : net.steps[n]->inputs) retained[v] = true;
  for (const int n : schedule.steps)
    if (again[n]) retained[net.steps[n]->output] = false;
  return retained;
}

std::int64_t forward_peak(const Net& net, const Schedule& schedule,
                          const std::vector<Step::Size>& sizes) {
  return whole(net, schedule, sizes).play_forward();
}

MemoryPlan everything_again(const Net& net, const Schedule& schedule,
                            const std::vector<Step::Size>& sizes) {
  return whole(net, schedule, sizes).play(std::vector<bool>(net.steps.size(), true));
}

MemoryPlan stage_memory(const Net& net, const NetStage& stage, const std::vector<Step::Size>& sizes,
                        const std::vector<bool>& again) {
  return Rehearsal(net, stage.schedule, sizes, stage.in, stage.out).play(again);
}

MemoryPlan memory_plan(const Net& net, const Schedule& schedule,
                       const std::vector<Step::Size>& sizes, const MemoryPolicy& policy,
                       FrameCount count) {
  using Kind = MemoryPolicy::Kind;
  Search search(net, schedule, sizes, count);
  const bool bounded = policy.kind == Kind::automatic;
  MemoryPlan plan = search.everything_kept();
  if (policy.kind == Kind::keep || (bounded && search.bytes(plan) <= policy.budget)) return plan;
  if (policy.kind == Kind::light) return search.light();
  if (policy.kind == Kind::offload) return search.offloaded();
  plan = search.cheap();
  if (!bounded || search.bytes(plan) > policy.budget) plan = search.segments();
  const std::int64_t least = search.bytes(plan);
  if (bounded && least > policy.budget)
    throw Error(Exit::usage, "a step's activations need at least " + bytes_text(least) +
                                 ", memory_budget is " + bytes_text(policy.budget));
  return search.cheaper(std::move(plan), bounded ? policy.budget : least);
}

}  // namespace sluice
