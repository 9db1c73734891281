#include "kernels/net/stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "kernels/net/layer_watch.h"
#include "kernels/net/pass.h"
#include "kernels/net/prepared.h"

namespace sluice {
namespace {

constexpr int kept_for_others = std::numeric_limits<int>::max();

int stage_of(int step, const std::vector<int>& cuts) {
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), step) - cuts.begin());
}

void add_once(std::vector<int>& all, int one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

// The steps where these layers begin.
std::vector<int> cuts_at(const Net& net, const std::vector<std::string>& layers) {
  std::vector<int> cuts;
  for (const auto& layer : layers) {
    const int at = steps_called(net, layer, "stages").first;
    if (at == 0)
      throw Error(Exit::usage, "stages: \"" + layer +
                                   "\" begins the network, and a stage before it would be empty: "
                                   "name the first layers of the second stage and those after it");
    if (!cuts.empty() && at <= cuts.back())
      throw Error(Exit::usage, "stages: \"" + layer + "\" does not come after \"" +
                                   layers[cuts.size() - 1] + "\"");
    cuts.push_back(at);
  }
  return cuts;
}

}  // namespace

int Stages::before(int value, int stage) const {
  const auto& all = at[value];
  const auto here = std::lower_bound(all.begin(), all.end(), stage);
  return here == all.begin() ? -1 : *std::prev(here);
}

int Stages::after(int value, int stage) const {
  const auto& all = at[value];
  const auto next = std::upper_bound(all.begin(), all.end(), stage);
  return next == all.end() ? -1 : *next;
}

Stages stages_of(const Net& net, const Schedule& schedule, const std::vector<int>& cuts) {
  const auto values = static_cast<std::size_t>(net.values);
  Stages s;
  s.maker.assign(values, -1);
  s.at.resize(values);
  const Schedule empty{{}, std::vector<int>(values, -1), std::vector<bool>(values, false)};
  s.all.assign(cuts.size() + 1, {empty, {}, {}});
  for (const auto& step : net.steps) s.of_step.push_back(stage_of(step->number, cuts));
  for (const int n : schedule.steps) {
    const Step& step = *net.steps[n];
    const int at = s.of_step[n];
    NetStage& stage = s.all[at];
    stage.schedule.steps.push_back(n);
    s.maker[step.output] = at;
    add_once(s.at[step.output], at);
    for (const int v : step.inputs) {
      add_once(s.at[v], at);
      if (s.maker[v] != at) add_once(stage.in, v);
      stage.schedule.last_use[v] = n;
    }
    step.each_kept([&](int v) { stage.schedule.kept[v] = true; });
  }
  for (int v = 0; v < net.values; ++v) {
    if (s.maker[v] < 0) continue;
    NetStage& from = s.all[s.maker[v]];
    const bool leaves = s.at[v].size() > 1;
    if (leaves) from.out.push_back(v);
    if (leaves || schedule.last_use[v] == kept_for_others)  // an output that is read as well
      from.schedule.last_use[v] = kept_for_others;
  }
  return s;
}

std::vector<std::int64_t> bytes_of(const Net& net, const std::vector<Step::Size>& sizes) {
  std::vector<std::int64_t> bytes;
  for (const auto& size : sizes) {
    bytes.push_back(static_cast<std::int64_t>(c10::elementSize(net.compute)));
    for (const auto n : size) bytes.back() *= n;
  }
  return bytes;
}

// By step, whether the list may be cut in front of it: steps that share a parameter (a convolution
// and the norm that knows its bias) stay on one device.
static std::vector<bool> cuttable(const Net& net) {
  std::vector<bool> may(net.steps.size() + 1, true);
  std::vector<int> first(net.parameters.size(), -1);
  for (const auto& s : net.steps)
    for (const int p : s->parameters()) {
      if (first[p] < 0) first[p] = s->number;
      std::fill(may.begin() + first[p] + 1, may.begin() + s->number + 1, false);
    }
  may[0] = false;
  return may;
}

// best[k][b]: of the first b steps in k stages, the dearest stage and the bytes that cross.
std::vector<int> balanced_cuts(const Net& net, int count, const std::vector<double>& costs,
                               const std::vector<std::int64_t>& bytes) {
  const auto n = net.steps.size();
  const auto stages = static_cast<std::size_t>(count);
  std::vector<double> until(n + 1, 0), crossing(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) until[i + 1] = until[i] + costs[i];
  std::vector<int> last(bytes.size(), -1);
  for (const auto& s : net.steps)
    for (const int v : s->inputs) last[v] = s->number;
  for (const auto& s : net.steps)
    for (int b = s->number + 1; b <= last[s->output]; ++b)
      crossing[b] += static_cast<double>(bytes[s->output]);
  using Best = std::pair<double, double>;
  const Best none{std::numeric_limits<double>::infinity(), 0};
  std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(n + 1, none));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  const std::vector<bool> may = cuttable(net);
  for (std::size_t k = 1; k <= stages; ++k)
    for (std::size_t b = k; b <= n; ++b)
      for (std::size_t a = k - 1; a < b; ++a) {
        if (a > 0 && !may[a]) continue;
        const Best one{std::max(best[k - 1][a].first, until[b] - until[a]),
                       best[k - 1][a].second + crossing[a]};
        if (one >= best[k][b]) continue;
        best[k][b] = one;
        from[k][b] = a;
      }
  std::vector<int> cuts;
  for (std::size_t k = stages, b = n; k > 1; --k) {
    b = from[k][b];
    cuts.insert(cuts.begin(), static_cast<int>(b));
  }
  return cuts;
}

std::vector<int> stage_cuts(const Net& net, const std::vector<Step::Size>& of_inputs) {
  const Parts& parts = Pass::shared(net).parts;
  if (parts.cuts) return *parts.cuts;
  if (parts.division.stages == 1) return {};
  const auto& sizes = net.sizes(of_inputs);
  std::vector<double> costs;
  for (const auto& s : net.steps) costs.push_back(step_cost(*s, sizes));
  return balanced_cuts(net, parts.division.stages, costs, bytes_of(net, sizes));
}

void divide(Net& net, const NetDivision& division) {
  if (net.memory_policy.kind == MemoryPolicy::Kind::offload &&
      (division.stages > 1 || !division.layers.empty()))
    throw Error(Exit::usage,
                "stages and memory \"offload\" do not go together: a value that stages share would "
                "stay; \"recompute\": \"stage\" saves memory there");
  Parts& parts = Pass::shared(net).parts;
  parts.division = division;
  if (!division.layers.empty()) {
    parts.cuts = cuts_at(net, division.layers);
    parts.division.stages = static_cast<int>(division.layers.size()) + 1;
  }
  const std::vector<bool> may = cuttable(net);
  const auto most = std::count(may.begin(), may.end() - 1, true) + 1;
  if (parts.division.stages > most)
    throw Error(Exit::usage, "stages is " + std::to_string(parts.division.stages) +
                                 ", but the network can be cut into " + std::to_string(most) +
                                 " at most");
}

std::vector<std::string> measured_balance(const Net& net, int stages) {
  const auto* sizes = Pass::planned_sizes(net);
  if (!sizes) return {};
  std::vector<double> costs;
  for (const StepCost& c : net.costs()) costs.push_back(c.forward + c.backward);
  if (std::all_of(costs.begin(), costs.end(), [](double c) { return c == 0; })) return {};
  std::vector<std::string> layers;
  for (int at : balanced_cuts(net, stages, costs, bytes_of(net, net.sizes(*sizes)))) {
    const auto count = static_cast<int>(net.steps.size());
    while (at + 1 < count && net.steps[at]->name.empty()) ++at;  // to the next one with a name
    layers.push_back(net.steps[at]->name);
  }
  try {
    cuts_at(net, layers);
  } catch (const Error&) {
    return {};
  }
  return layers;
}

namespace {

std::vector<bool> made_again(const MemoryPlan* plan, const Net& net) {
  return plan ? plan->again : std::vector<bool>(net.steps.size());
}

}  // namespace

std::vector<StageFigures> Pass::figures(const Net& net) {
  std::vector<StageFigures> all;
  const Net::Planned& p = net.planned_;
  if (!p.schedule || net.prepared_->parts.division.stages == 1) return all;
  const auto& sizes = net.sizes(p.of_inputs);
  const auto bytes = bytes_of(net, sizes);
  for (const NetStage& stage : stages(net, *p.schedule, p.of_inputs).all) {
    const auto& steps = stage.schedule.steps;
    if (steps.empty()) continue;
    const MemoryPlan plan = stage_memory(net, stage, sizes, made_again(p.plan.get(), net));
    StageFigures f{steps.front(), steps.back(), plan.kept * p.count.frames, p.count.bytes(plan), 0};
    for (const int v : stage.in) f.comes += bytes[v];
    all.push_back(f);
  }
  return all;
}

// All stages in one memory: what several of them hold is there once. In the backward pass of a
// stage those after it have let go of theirs.
Net::Memory Pass::memory_in_stages(const Net& net) {
  const Net::Planned& p = net.planned_;
  const auto& sizes = net.sizes(p.of_inputs);
  const auto bytes = bytes_of(net, sizes);
  const auto again = made_again(p.plan.get(), net);
  std::vector<int> holders(sizes.size(), 0);
  MemoryPlan whole;
  double cost = 0;
  for (const NetStage& stage : stages(net, *p.schedule, p.of_inputs).all) {
    const MemoryPlan plan = stage_memory(net, stage, sizes, again);
    const auto retained = retained_values(net, stage.schedule, again);
    for (const int v : stage.in)
      if (retained[v] && ++holders[v] > 1) whole.kept -= bytes[v];
    for (const int v : stage.out)
      if (retained[v]) ++holders[v];
    whole.peak = std::max(whole.peak, whole.kept + plan.peak);
    whole.kept += plan.kept;
    double own = 0;
    for (const int n : stage.schedule.steps) own += step_cost(*net.steps[n], sizes);
    whole.forward_again += own * plan.forward_again;
    cost += own;
  }
  Net::Memory m;
  m.step = p.count.bytes(whole);
  m.all_kept = p.count.bytes(memory_plan(net, *p.schedule, sizes, {}, p.count));
  m.forward_again = whole.forward_again / cost;
  return m;
}

std::vector<StageFigures> stage_figures(const Net& net) { return Pass::figures(net); }
std::int64_t micro_batches(const Net& net) { return Pass::frames(net); }

std::optional<double> measured_bubble(const Net& net) {
  const Parts& parts = Pass::shared(net).parts;
  const auto whole = static_cast<double>(parts.whole.load());
  if (whole == 0) return std::nullopt;
  return 1 - static_cast<double>(parts.busy.load()) / whole;
}

}  // namespace sluice
