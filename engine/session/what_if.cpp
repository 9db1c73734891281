#include "engine/session/what_if.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <mutex>
#include <optional>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"
#include "engine/judge/forecast.h"
#include "engine/run/forward.h"
#include "engine/session/session.h"

namespace sluice {

// ---- the question -------------------------------------------------------------------------------

constexpr int most_threads = 4096;  // as --threads

static bool on_step(const PlanNode& n) { return n.lane == LaneKind::step; }

// A member of a run whose readers get fields of the same types and extents without it, so that the
// others can still be done together.
static bool can_be_left_out(const PlanNode& n, const Plan& plan) {
  if (n.run < 0 || n.spec->arity != Arity::one_to_one || n.path().find('/') != std::string::npos)
    return false;
  const auto chooses = [](const FieldRule& r) {
    return r.act == FieldRule::Act::crops || (r.act == FieldRule::Act::resizes && r.param.empty());
  };
  const auto& fields = n.flow.fields;
  const bool known =
      std::all_of(fields.begin(), fields.end(), std::mem_fn(&FieldInfo::has_known_extents));
  return (known || std::none_of(n.spec->rules.begin(), n.spec->rules.end(), chooses)) &&
         n.flow.same(plan.nodes[static_cast<std::size_t>(n.inputs.front().from)].flow);
}

static void free_node(const std::string& path, const Plan& plan, WhatIf& what) {
  const int i = plan.graph->find(path);
  const auto plus = path.find('+');
  if (i < 0 && plus != std::string::npos) {  // what is done in one pass
    free_node(path.substr(0, plus), plan, what);
    return free_node(path.substr(plus + 1), plan, what);
  }
  if (i < 0) throw Error(Exit::usage, "--what-if free:" + path + ": no such node");
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
  if (on_step(n) && plan.streams[static_cast<std::size_t>(n.stream)].trains)
    throw Error(Exit::usage, "--what-if free:" + path +
                                 ": the nodes of the training region need each other's gradients; "
                                 "null:model frees them all");
  if (!can_be_left_out(n, plan)) return what.options.free.push_back(path);
  what.left_out.push_back(path);
  what.options.set.push_back("nodes." + path + ".disabled=true");
}

// A node that costs nothing is in no run (plan.h): what it emits is made once, so it is done by
// then. All that works before the step lane, or on it. Sources stay: they say when an epoch
// ends.
static void free_side(bool step, const Plan& plan, Options& options) {
  for (const PlanNode& n : plan.nodes)
    if (on_step(n) == step && !n.is_source()) options.free.push_back(n.path());
}

static int thread_count(const std::string& text, const std::string& number) {
  int n = 0;
  const char* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, n);
  if (read.ec != std::errc() || read.ptr != end || n < 1 || n > most_threads)
    throw Error(Exit::usage, "--what-if " + text + ": a number of threads is positive, at most " +
                                 std::to_string(most_threads));
  return n;
}

WhatIf parse_what_if(const std::string& text, const Plan& plan, const Options& options) {
  WhatIf what{text, options};
  Options& o = what.options;
  o.out.clear();
  o.out_base.clear();
  o.resume.clear();
  o.what_if.clear();
  o.warnings = false;
  const auto after = [&](const char* word) { return text.substr(std::string(word).size()); };
  if (text.starts_with("free:")) {
    free_node(after("free:"), plan, what);
  } else if (text == "null:data" || text == "null:model") {
    free_side(text == "null:model", plan, o);
  } else if (text.starts_with("threads=")) {
    o.threads = thread_count(text, after("threads="));
  } else if (text.starts_with("io_threads=")) {
    o.io_threads = thread_count(text, after("io_threads="));
  } else {
    std::string change = text;
    const std::string first = text.substr(0, text.find_first_of(".="));
    const bool is_node = plan.graph->find(first) >= 0;
    if (text.find('=') == std::string::npos && !text.starts_with("~"))
      throw Error(Exit::usage, "--what-if " + text +
                                   ": want threads=N, io_threads=N, NODE.NAME=VALUE, free:NODE, "
                                   "null:data or null:model");
    const bool is_path = text.starts_with("~") || text.starts_with("+") || first == "run" ||
                         first == "vars" || first == "models" || first == "nodes" ||
                         first == "parts";
    if (!is_node && !is_path) {
      std::vector<std::string> known;
      for (const PlanNode& n : plan.nodes) known.push_back(n.path());
      const std::string hint = did_you_mean(first, known);
      throw Error(Exit::usage, "--what-if " + text + ": no node is called \"" + first + "\"" +
                                   (hint.empty() ? "" : "; " + hint));
    }
    if (is_node) change.insert(0, "nodes.");
    o.set.push_back(change);
  }
  return what;
}

// ---- the answer ---------------------------------------------------------------------------------

// The simulation of the run as it was says how far it is off; the prediction is corrected by that.
std::optional<Prediction> predict(const WhatIf& what, const Plan& plan, const Figures& figures) {
  Prediction p;
  p.before = pace(plan, figures);
  std::optional<Graph> graph;
  std::optional<Plan> changed;
  if (!load_plan(what.options, graph, changed)) return std::nullopt;
  PlanCosts costs = PlanCosts::of(*changed, plan, figures);
  for (const auto& path : what.options.free)
    if (const int i = graph->find(path); i >= 0)
      costs.nodes[static_cast<std::size_t>(i)].service_s = 0;
  const double now = forecast(plan, figures.threads, PlanCosts::of(plan, plan, figures));
  if (now <= 0 || p.before <= 0) return p;
  const Threads threads = thread_counts(what.options, *changed);
  const auto rate = [&] { return p.before * forecast(*changed, threads, costs) / now; };
  p.after = rate();
  if (what.options.seconds <= 0) return p;
  // In so many seconds a quicker run gets further: what caches pass is a larger share of it.
  const PlanCosts first = costs;
  for (int turn = 0; turn < 8; ++turn) {
    for (std::size_t i = 0; i < costs.nodes.size(); ++i)
      if (first.nodes[i].fires < 1)
        costs.nodes[i].fires = std::min(1.0, first.nodes[i].fires * p.before / p.after);
    p.after = rate();
  }
  return p;
}

// ---- free of cost -------------------------------------------------------------------------------

namespace {

class Freed final : public Forward {
 public:
  using Forward::Forward;
  void process(Firing& f) override {
    {
      std::lock_guard lock(mutex_);
      if (known_) {
        for (const auto& o : *known_) f.emit_ptr(o.sample, o.port, o.item);
        return;
      }
    }
    node_->process(f);
    if (f.has_rest()) return;  // a list takes next to nothing, and may be too long to keep
    if (f.outs().empty() && !f.skip_reason().empty()) return;  // a filter's first: not yet
    std::lock_guard lock(mutex_);
    known_ = f.outs();
  }

 private:
  std::mutex mutex_;
  std::optional<std::vector<Firing::Out>> known_;
};

}  // namespace

std::unique_ptr<Node> free_of_cost(std::unique_ptr<Node> node) {
  return std::make_unique<Freed>(std::move(node));
}

}  // namespace sluice
