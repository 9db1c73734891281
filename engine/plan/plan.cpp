#include "engine/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "engine/base/stamp.h"
#include "engine/plan/device_need.h"
#include "engine/plan/plan_pass.h"

namespace sluice {

TurnOrder Plan::sequence() const {
  const PlanTurns& t = *turns;
  std::vector<TurnOrder::Validation> validations;
  for (int s : t.streams) validations.push_back({s, static_cast<std::uint32_t>(streams[s].every)});
  return {t.train_stream, static_cast<std::uint32_t>(streams[t.train_stream].epochs),
          std::move(validations)};
}

std::vector<int> Plan::training_gates() const {
  std::vector<int> gates;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].begins_training()) gates.push_back(static_cast<int>(i));
  return gates;
}

std::vector<int> training_region(const Plan& plan) {
  std::vector<int> region = plan.training_gates();
  if (region.size() != 1) return {};
  for (std::size_t at = 0; at < region.size(); ++at)
    for (const auto& port : plan.nodes[static_cast<std::size_t>(region[at])].outs)
      for (const PlanEdge& e : port)
        if (!plan.nodes[static_cast<std::size_t>(e.to)].gate &&
            std::find(region.begin(), region.end(), e.to) == region.end())
          region.push_back(e.to);
  return region;
}

std::string text(const Plan& plan, const PlanRun& run) {
  std::string out;
  for (int i : run.nodes) out += (out.empty() ? "" : " + ") + plan.nodes[i].path();
  const int n = run.resamplings;
  out += n == 0 ? ": one copy" : n == 1 ? ": one resampling" : ": ";
  if (n > 1) out += std::to_string(n) + " resamplings";
  return out + (run.batched ? " of the whole batch" : "");
}

int PlanPass::at_most(const PlanNode& n, const std::string& key, std::int64_t samples,
                      const std::string& what) {
  if (samples <= most_samples) return static_cast<int>(samples);
  const std::string said =
      what.empty() ? "\"" + key + "\" is " + n.graph->params.at(key).dump() : what;
  error_at(
      static_cast<int>(&n - plan_.nodes.data()), key, "SL0432",
      said + ": more than the " + std::to_string(most_samples) + " samples that can be counted",
      "no machine holds so many: make it smaller");
  return 1;
}

Diagnostic& PlanPass::error(int n, std::string code, std::string message, std::string hint) {
  const GraphNode& g = *plan_.nodes[n].graph;
  return diagnostics_.error(std::move(code), std::move(message), g.place.key(), "nodes." + g.path,
                            std::move(hint));
}

// At a member of the node where it is written, else at the node's name.
Diagnostic& PlanPass::error_at(int n, const std::string& key, std::string code, std::string message,
                               std::string hint) {
  const GraphNode& g = *plan_.nodes[n].graph;
  const Place member = g.place.child(key);
  const bool written = member.document && member.str() != member.document->file;
  Diagnostic& d = error(n, std::move(code), std::move(message), std::move(hint));
  if (!key.empty() && written) {
    d.place = member;
    d.path += "." + key;
  }
  return d;
}

// All nodes reachable from `from` (not itself) / from which `to` can be reached.
std::set<int> PlanPass::downstream(int from) const {
  std::set<int> seen;
  std::vector<int> todo{from};
  while (!todo.empty()) {
    const int i = todo.back();
    todo.pop_back();
    for (const auto& port : plan_.nodes[i].outs)
      for (const PlanEdge& e : port)
        if (seen.insert(e.to).second) todo.push_back(e.to);
  }
  return seen;
}

std::set<int> PlanPass::upstream(int to) const {
  std::set<int> seen;
  std::vector<int> todo{to};
  while (!todo.empty()) {
    const int i = todo.back();
    todo.pop_back();
    for (const GraphInput& in : plan_.nodes[i].inputs)
      if (seen.insert(in.from).second) todo.push_back(in.from);
  }
  return seen;
}

bool PlanPass::learns(const std::string& network) const {
  return plan_.turns && std::ranges::count(plan_.turns->networks, network) > 0;
}

namespace {

class Planner : PlanPass {
 public:
  explicit Planner(const PlanPass& pass) : PlanPass(pass) {}

  // Whether the graph can be run.
  bool run() {
    const auto before = diagnostics_.errors();
    nodes();
    sort();
    domains();
    if (diagnostics_.errors() != before) return false;
    flows();
    stay();
    plan_turns(*this);
    plan_gradients(*this);
    plan_shards(*this);
    plan_caches(*this);
    plan_runs(*this);
    plan_credits(*this);
    check_metrics(*this);
    check_idle_params(*this);
    files();
    if (diagnostics_.errors() != before) return false;
    for (const Diagnostic& remark : graph_.remarks) diagnostics_.add(remark);
    unread();
    return true;
  }

 private:
  // A list of numbers (a grid) counts as their product, one of names as how many these are. 0:
  // an expand that says none.
  int count(const PlanNode& n) {
    const std::string& name = n.spec->count_param;
    if (name.empty() && n.spec->arity == Arity::expand) return 0;  // as many as a sample has
    if (name.empty() || !n.graph->params.contains(name) || !n.graph->params.at(name).is_array())
      return at_most(n, name, param<std::int64_t>(n, name, 1));
    std::int64_t all = 1;
    const Json& list = n.graph->params.at(name);
    if (!list.empty() && list.front().is_string())
      return at_most(n, name, static_cast<std::int64_t>(list.size()));
    for (const Json& one : list)
      if (__builtin_mul_overflow(all, one.get<std::int64_t>(), &all)) all = most_samples + 1;
    return at_most(n, name, all);
  }

  void nodes() {
    for (const GraphNode& g : graph_.nodes) {
      PlanNode n;
      n.graph = &g;
      n.spec = g.spec;
      n.lane = g.lane == "compute" ? LaneKind::compute
               : g.lane == "io"    ? LaneKind::io
               : g.lane == "step"  ? LaneKind::step
                                   : g.spec->lane_kind;
      n.concurrency = g.spec->concurrency;
      if (g.threads > 0)
        n.concurrency = n.concurrency > 0 ? std::min(n.concurrency, g.threads) : g.threads;
      if (n.lane == LaneKind::io) plan_.io_threads = std::max(plan_.io_threads, g.threads);
      n.ordered = g.spec->is_ordered;
      n.gate = g.spec->is_gate || g.spec->arity == Arity::gather;
      n.drop_last = param(n, g.spec->drop_last_param, false);
      n.inputs = g.inputs;
      n.outs.resize(g.spec->outs.size());
      plan_.nodes.push_back(std::move(n));
    }
    for (PlanNode& n : plan_.nodes) n.count = count(n);
    for (int i = 0; i < size(); ++i)
      for (const GraphInput& in : node(i).inputs)
        node(in.from).outs[in.from_port].push_back({i, in.port});
  }

  // The graph is free of cycles (load_graph checked), so this ends with every node placed.
  void sort() {
    std::vector<int> waits(size());
    for (int i = 0; i < size(); ++i) waits[i] = static_cast<int>(node(i).inputs.size());
    for (int i = 0; i < size(); ++i)
      if (node(i).is_source()) {
        node(i).stream = static_cast<int>(plan_.streams.size());
        PlanStream s;
        s.source = i;
        plan_.streams.push_back(s);
      }
    std::vector<int> ready;
    for (int i = size() - 1; i >= 0; --i)
      if (waits[i] == 0) ready.push_back(i);
    while (!ready.empty()) {
      const int i = ready.back();
      ready.pop_back();
      plan_.order.push_back(i);
      for (const auto& port : node(i).outs)
        for (const PlanEdge& e : port)
          if (--waits[e.to] == 0) ready.push_back(e.to);
    }
  }

  // Two nodes that write one file, as far as the graph says which.
  void files() {
    std::map<std::filesystem::path, int> writers;
    for (int i = 0; i < size(); ++i) {
      const auto& keys = node(i).spec->file_params;
      if (keys.empty()) continue;
      std::filesystem::path file;
      for (const std::string& key : keys) file /= param<std::string>(node(i), key, "");
      file = file.lexically_normal();
      const int first = writers.try_emplace(file, i).first->second;
      if (first != i)
        error_at(
            i, keys.back(), "SL0460",
            file.string() + " is written by \"" + path(first) + "\" and by \"" + path(i) + "\"",
            "give each a file of its own");
    }
  }

  void flows() {
    auto found = find_flows(plan_, diagnostics_);
    for (int i = 0; i < size(); ++i) node(i).flow = std::move(found[static_cast<std::size_t>(i)]);
    if (options_.device)
      for (PlanNode& n : plan_.nodes)
        if (works_on_device(n)) n.lane = LaneKind::copy;
  }

  // Small fields that steer nodes after it: they would only come back.
  void stay() {
    for (int i = 0; i < size(); ++i) {
      if (!moves_samples(*node(i).spec)) continue;
      for (int behind : downstream(i))
        for (std::string& name : read_on_host(plan_, behind))
          if (std::find(node(i).stays.begin(), node(i).stays.end(), name) == node(i).stays.end())
            node(i).stays.push_back(std::move(name));
    }
  }

  // A sink only reads, and gets its samples when the device is done with them.
  bool works_on_device(const PlanNode& n) const {
    if (n.lane != LaneKind::compute || n.spec->host_only || n.is_sink()) return false;
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](const GraphInput& in) {
      return plan_.nodes[static_cast<std::size_t>(in.from)].flow.moved_by >= 0;
    });
  }

  void domains() {
    for (int i : plan_.order) {
      PlanNode& n = node(i);
      if (n.is_source()) {
        n.domain = i;
        continue;
      }
      if (n.inputs.empty()) {
        error(i, "SL0401", "\"" + path(i) + "\" is no source and has no input");
        continue;
      }
      const PlanNode& first = node(n.inputs.front().from);
      for (const GraphInput& in : n.inputs)
        if (node(in.from).domain != first.domain) {
          unlike(i, n.inputs.front().from, in);
          break;
        }
      n.stream = first.stream;
      n.depth_in = n.depth_out = first.depth_out;
      n.domain = first.domain;
      if (n.spec->arity == Arity::expand) {
        n.domain = i;
        if (++n.depth_out == Stamp::max_depth + 1)
          error(i, "SL0403",
                "more than " + std::to_string(Stamp::max_depth) + " 1:n nodes in a row",
                "a batch between them begins anew");
      } else if (n.spec->arity == Arity::gather || n.spec->arity == Arity::shuffle) {
        n.domain = i;
        n.depth_out = 0;
      }
    }
  }

  // Two inputs whose samples do not correspond, and why.
  void unlike(int i, int first, const GraphInput& in) {
    const int a = node(first).domain, b = node(in.from).domain;
    const bool one_stream = node(first).stream == node(in.from).stream;
    const auto counts = [&](int from, int domain) {
      return "\"" + path(from) + "\" counts from \"" + path(domain) + "\" (" +
             node(domain).spec->name + ")";
    };
    diagnostics_.error(
        one_stream ? "SL0404" : "SL0402",
        "\"" + path(i) + "\" joins " +
            (one_stream ? "samples that were counted anew on one side: " : "two streams: ") +
            counts(first, a) + ", " + counts(in.from, b),
        in.place, "nodes." + path(i) + ".in",
        one_stream ? "join in front of the 1:n node, batch or shuffle"
                   : "only one source can feed a node");
  }

  // A node that only computes, and whose result nothing reads: most likely the next one was not
  // connected to it.
  void unread() {
    for (int i = 0; i < size(); ++i) {
      const PlanNode& n = node(i);
      const bool pure = n.spec->lane_kind == LaneKind::compute && !n.spec->is_ordered &&
                        n.spec->access == Access::none && !n.is_source() && !n.spec->outs.empty();
      if (!pure || !n.is_sink() || n.path().find('/') != std::string::npos) continue;
      diagnostics_.warning("SL0319", "nothing reads \"" + n.path() + "\" (" + n.spec->name + ")",
                           n.graph->place.key(), "nodes." + n.path(), reader_beside(i));
    }
  }

  // Who reads what this node reads, and may have been meant to read this one.
  std::string reader_beside(int i) const {
    if (plan_.nodes[i].inputs.empty()) return "";
    const GraphInput& in = plan_.nodes[i].inputs.front();
    for (const PlanEdge& e : plan_.nodes[in.from].outs[in.from_port])
      if (e.to != i)
        return "should \"" + path(e.to) + "\" read it instead of \"" + path(in.from) + "\"?";
    return "";
  }
};

}  // namespace

std::optional<Plan> make_plan(const Graph& graph, const PlanOptions& options,
                              Diagnostics& diagnostics) {
  Plan plan;
  plan.graph = &graph;
  plan.threads = options.threads;
  if (!Planner(PlanPass(plan, options, diagnostics)).run()) return std::nullopt;
  return plan;
}

}  // namespace sluice
