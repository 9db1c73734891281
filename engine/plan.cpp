#include "engine/plan.h"

#include <algorithm>
#include <set>

#include "engine/cache_need.h"
#include "engine/device_need.h"

namespace sluice {

std::vector<Turn> Plan::sequence(int turns_index) const {
  const PlanTurns& t = turns[turns_index];
  const auto epochs = static_cast<std::uint32_t>(streams[t.train_stream].epochs);
  std::vector<std::uint32_t> done(streams.size(), 0);
  std::vector<Turn> all;
  for (std::uint32_t e = 0; e < epochs; ++e) {
    all.push_back({t.train_stream, e, e});
    for (int s : t.streams)
      if ((e + 1) % static_cast<std::uint32_t>(streams[s].every) == 0 || e + 1 == epochs)
        all.push_back({s, done[s]++, e});
  }
  return all;
}

std::string text(const Plan& plan, const PlanRun& run) {
  std::string out;
  for (int i : run.nodes) out += (out.empty() ? "" : " + ") + plan.nodes[i].path();
  const int n = run.resamplings;
  out += n == 0 ? ": one copy" : n == 1 ? ": one resampling" : ": ";
  if (n > 1) out += std::to_string(n) + " resamplings";
  return out + (run.batched ? " of the whole batch" : "");
}

namespace {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options, Diagnostics& diagnostics)
      : graph_(graph), options_(options), diagnostics_(diagnostics) {
    plan_.graph = &graph;
    plan_.threads = options.threads;
  }

  std::optional<Plan> run() {
    const auto before = diagnostics_.errors();
    nodes();
    sort();
    domains();
    if (diagnostics_.errors() != before) return std::nullopt;
    flows();
    stay();
    turns();
    epochs();
    caches();
    runs();
    segments();
    cuts();
    stop_rule();
    device_budget();
    if (diagnostics_.errors() != before) return std::nullopt;
    for (const Diagnostic& remark : graph_.remarks) diagnostics_.add(remark);
    unread();
    return std::move(plan_);
  }

 private:
  Diagnostic& error(int n, std::string code, std::string message, std::string hint = "") {
    const GraphNode& g = *plan_.nodes[n].graph;
    return diagnostics_.error(std::move(code), std::move(message), g.place.key(), "nodes." + g.path,
                              std::move(hint));
  }
  // At a member of the node where it is written, else at the node's name.
  Diagnostic& error_at(int n, const std::string& key, std::string code, std::string message,
                       std::string hint = "") {
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
  const std::string& path(int n) const { return plan_.nodes[n].path(); }
  PlanNode& node(int n) { return plan_.nodes[n]; }

  template <class T>
  T param(const PlanNode& n, const std::string& name, T otherwise) const {
    if (name.empty() || !n.graph->params.contains(name)) return otherwise;
    const Json& v = n.graph->params.at(name);
    return v.is_null() ? otherwise : v.get<T>();
  }
  bool given(const PlanNode& n, const std::string& name) const {
    return std::find(n.graph->given.begin(), n.graph->given.end(), name) != n.graph->given.end();
  }

  // A list of numbers (a grid) counts as their product.
  int count(const PlanNode& n) const {
    const std::string& name = n.spec->count_param;
    if (name.empty() || !n.graph->params.contains(name) || !n.graph->params.at(name).is_array())
      return static_cast<int>(param<std::int64_t>(n, name, 1));
    std::int64_t all = 1;
    for (const Json& one : n.graph->params.at(name))
      all = std::min<std::int64_t>(all * one.get<std::int64_t>(), 1 << 20);
    return static_cast<int>(all);
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
      n.count = count(n);
      n.drop_last = param(n, g.spec->drop_last_param, false);
      n.inputs = g.inputs;
      n.outs.resize(g.spec->outs.size());
      plan_.nodes.push_back(std::move(n));
    }
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

  void flows() {
    auto found = find_flows(plan_, diagnostics_);
    for (int i = 0; i < size(); ++i) node(i).flow = std::move(found[static_cast<std::size_t>(i)]);
    if (options_.device)
      for (PlanNode& n : plan_.nodes)
        if (works_on_device(n)) n.lane = LaneKind::copy;
  }

  // Small fields that steer nodes behind it: they would only come back.
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

  // All nodes reachable from `from` (not itself) / from which `to` can be reached.
  std::set<int> downstream(int from) const {
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
  std::set<int> upstream(int to) const {
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

  std::string network_of(const PlanNode& n) const {
    return param<std::string>(n, n.spec->network_param, "");
  }

  // ---- turns: who holds an updated network when ---------------------------------------------
  void turns() {
    for (int i : plan_.order)
      if (node(i).spec->access == Access::update) updater(i);
    for (int i : plan_.order)
      if (node(i).spec->access == Access::read) reader(i);
    for (const PlanTurns& t : plan_.turns)
      for (int u : t.updaters) lone_updater(u);
    for (std::size_t s = 0; s < plan_.streams.size(); ++s) validation(static_cast<int>(s));
  }

  int turns_of(const std::string& network) const {
    for (std::size_t t = 0; t < plan_.turns.size(); ++t) {
      const auto& names = plan_.turns[t].networks;
      if (std::find(names.begin(), names.end(), network) != names.end()) return static_cast<int>(t);
    }
    return -1;
  }

  int updater_of(const std::string& network) const {
    for (const PlanTurns& t : plan_.turns)
      for (std::size_t k = 0; k < t.networks.size(); ++k)
        if (t.networks[k] == network) return t.updaters[k];
    return -1;
  }

  // Of two updaters the one that stands further down in the file is reported.
  void second_updater(int i) {
    const std::string name = network_of(node(i));
    const int first = std::min(i, updater_of(name)), second = std::max(i, updater_of(name));
    error_at(second, node(second).spec->network_param, "SL0410",
             "network \"" + name + "\" is updated by \"" + path(first) + "\" already",
             "give it a network of its own, or remove it");
  }

  void updater(int i) {
    PlanNode& n = node(i);
    int t = turns_of(network_of(n));
    if (t >= 0) return second_updater(i);
    // Updaters of one stream share its turns: their networks change together.
    for (std::size_t k = 0; k < plan_.turns.size(); ++k)
      if (plan_.turns[k].train_stream == n.stream) t = static_cast<int>(k);
    if (t < 0) {
      t = static_cast<int>(plan_.turns.size());
      plan_.turns.emplace_back();
      plan_.turns[t].train_stream = n.stream;
      plan_.streams[n.stream].turns = t;
      plan_.streams[n.stream].trains = true;
    }
    plan_.turns[t].networks.push_back(network_of(n));
    plan_.turns[t].updaters.push_back(i);
    n.turns = t;
    n.training = n.ordered = true;
    n.concurrency = 1;
  }

  void reader(int i) {
    PlanNode& n = node(i);
    const int t = turns_of(network_of(n));
    if (t < 0) return;  // nobody updates it: no turns
    const std::set<int> behind = downstream(i);
    // Its own network's updater, not just one of the same turns: else that network might be updated
    // for this batch before or after it is read for it.
    bool feeds = false;
    for (std::size_t k = 0; k < plan_.turns[t].updaters.size(); ++k)
      feeds |= plan_.turns[t].networks[k] == network_of(n) &&
               behind.count(plan_.turns[t].updaters[k]) > 0;
    const bool same_stream = n.stream == plan_.turns[t].train_stream;
    if (same_stream && !feeds) {
      error_at(
          i, n.spec->network_param, "SL0411",
          "\"" + path(i) + "\" reads network \"" + network_of(n) +
              "\" in the stream that trains it but does not feed its updater, so what it reads "
              "would "
              "depend on timing",
          "give it a source of its own with \"after\": \"" + path(plan_.turns[t].updaters.front()) +
              "\"");
      return;
    }
    n.training = same_stream;
    for (int a : upstream(i)) {  // only the first reader is a gate
      if (node(a).turns != t || !node(a).gate || node(a).spec->access != Access::read) continue;
      if (same_stream && n.domain != node(a).domain)
        error_at(i, n.spec->network_param, "SL0416",
                 "\"" + path(i) + "\" reads network \"" + network_of(n) +
                     "\" behind a 1:n node of the " + "region that begins at \"" + path(a) +
                     "\", so whether a child sees the update of the one before depends on timing",
                 "move the 1:n node in front of \"" + path(a) + "\"");
      return;
    }
    n.gate = true;
    n.turns = t;
    if (!same_stream) {
      std::set<int> sinks;
      if (n.is_sink()) sinks.insert(i);
      for (int b : behind)
        if (node(b).is_sink()) sinks.insert(b);
      auto& all = plan_.turns[t].sinks;
      for (int b : sinks)
        if (std::find(all.begin(), all.end(), b) == all.end()) all.push_back(b);
    } else {
      n.ordered = true;
      n.concurrency = 1;
      region(i, t);
    }
  }

  // An updater that no reader stands in front of is its own region: without a gate it would go on
  // to the next training epoch while a validation turn reads what it changes.
  void lone_updater(int u) {
    for (int a : upstream(u))
      if (node(a).turns == node(u).turns && node(a).gate && node(a).training) return;
    node(u).gate = true;
  }

  // Nothing between the first training reader and the updaters may begin another segment: its
  // credit would come home before the update is done.
  void region(int first, int t) {
    for (int u : plan_.turns[t].updaters) {
      const std::set<int> before = upstream(u);
      for (int b : downstream(first))
        if (before.count(b) && (node(b).spec->is_gate || node(b).spec->arity == Arity::gather))
          error(b, "SL0412",
                "\"" + path(b) + "\" (" + node(b).spec->name + ") stands between \"" + path(first) +
                    "\" and its updater \"" + path(u) + "\", inside the training region",
                "move it in front of \"" + path(first) + "\"");
    }
  }

  void validation(int s) {
    PlanStream& stream = plan_.streams[s];
    const GraphNode& source = *node(stream.source).graph;
    int bound = -1;
    bool mixed = false;  // reads networks of different turns
    for (const PlanNode& n : plan_.nodes) {
      if (n.stream != s || n.turns < 0 || n.training) continue;
      mixed |= bound >= 0 && bound != n.turns;
      bound = n.turns;
    }
    if (source.after.empty()) {
      if (bound >= 0)
        error(stream.source, "SL0413",
              "\"" + source.path + "\" feeds a reader of network \"" +
                  plan_.turns[bound].networks.front() + "\", which is being trained",
              "say when it runs: \"after\": \"" + path(plan_.turns[bound].updaters.front()) + "\"");
      return;
    }
    const int after = graph_.find(source.after);
    if (after < 0 || node(after).spec->access != Access::update) {
      error_at(stream.source, "after", "SL0414",
               "\"after\" names \"" + source.after + "\", which updates no network",
               updaters_hint());
      return;
    }
    if (node(after).turns < 0) return;  // a second updater: reported there
    stream.turns = node(after).turns;
    stream.every = source.every_epochs;
    plan_.turns[stream.turns].streams.push_back(s);
    if (stream.trains || mixed || (bound >= 0 && bound != stream.turns))
      two_turns(stream, mixed, bound);
    if (bound < 0) wait_for_sinks(s);
  }

  std::string updaters_hint() const {
    std::string names;
    for (const PlanTurns& t : plan_.turns)
      for (int u : t.updaters) names += (names.empty() ? "\"" : ", \"") + path(u) + "\"";
    return names.empty() ? "the graph updates none" : "the updaters are " + names;
  }

  void two_turns(const PlanStream& stream, bool mixed, int bound) {
    const GraphNode& source = *node(stream.source).graph;
    std::string message, hint;
    if (stream.trains) {
      message = "trains a network itself, so it cannot wait for \"" + source.after + "\"";
      hint = "remove \"after\"";
    } else if (mixed) {
      message = "feeds readers of networks that are trained by different streams";
      hint = "give each a source of its own";
    } else {
      const int updater = plan_.turns[bound].updaters.front();
      message = "waits for \"" + source.after + "\" but feeds a reader of network \"" +
                plan_.turns[bound].networks.front() + "\", which \"" + path(updater) + "\" updates";
      hint = "did you mean \"" + path(updater) + "\"?";
    }
    error_at(stream.source, "after", "SL0415", "\"" + source.path + "\" " + message, hint);
  }

  // A validation stream that reads nothing (it writes a file, say) still has its turn.
  void wait_for_sinks(int s) {
    for (int i = 0; i < size(); ++i)
      if (node(i).stream == s && node(i).is_sink())
        plan_.turns[plan_.streams[s].turns].sinks.push_back(i);
  }

  void epochs() {
    for (PlanStream& s : plan_.streams) s.epochs = graph_.run.epochs;
    for (std::size_t t = 0; t < plan_.turns.size(); ++t) {
      for (int s : plan_.turns[t].streams) plan_.streams[s].epochs = 0;
      for (const Turn& turn : plan_.sequence(static_cast<int>(t)))
        if (turn.stream != plan_.turns[t].train_stream) ++plan_.streams[turn.stream].epochs;
    }
  }

  // What gives something else in every epoch belongs behind the cache: the first such node is
  // named.
  void frozen(int c, const std::set<int>& before) {
    int first = -1;
    std::vector<std::string> more;
    std::string why;
    for (int i : plan_.order) {
      if (!before.count(i)) continue;
      const Spec& s = *node(i).spec;
      const bool changes = s.access != Access::none && turns_of(network_of(node(i))) >= 0;
      const char* what = s.is_random                 ? "draws random numbers"
                         : changes                   ? "reads a network that is trained"
                         : s.arity == Arity::expand  ? "is a 1:n node"
                         : s.arity == Arity::gather  ? "is an n:1 node"
                         : s.arity == Arity::shuffle ? "reorders samples"
                         : s.is_ordered              ? "keeps state"
                                                     : nullptr;
      if (!what) continue;
      if (first < 0) {
        first = i;
        why = what;
      } else {
        more.push_back(path(i));
      }
    }
    if (first < 0) return;
    Diagnostic& d = error(c, "SL0420",
                          "cache \"" + path(c) + "\" stands behind \"" + path(first) + "\" (" +
                              node(first).spec->name + "), which " + why +
                              ": the first epoch's result would be frozen",
                          "move the cache in front of \"" + path(first) + "\"");
    for (const auto& name : more) d.notes.push_back("it stands behind \"" + name + "\" too");
  }

  bool keeps_for_later(int cache) const {
    const auto store = param<std::string>(plan_.nodes[cache], "store", "memory");
    return store == "disk" || store == "auto";
  }

  // What is done once for all runs must leave nothing but its sample.
  void skips_writing(int c, const std::set<int>& before) {
    if (!keeps_for_later(c)) return;
    for (int i : plan_.order) {
      const Spec& s = *node(i).spec;
      if (!before.count(i) || node(i).is_source() || s.lane_kind != LaneKind::io) continue;
      error_at(c, "store", "SL0421",
               "cache \"" + path(c) + "\" keeps samples for later runs, in which \"" + path(i) +
                   "\" (" + s.name + ") in front of it would write nothing",
               "move \"" + path(i) + "\" behind the cache, or use \"memory\"");
      return;
    }
  }

  // ---- caches -----------------------------------------------------------------------------------
  void caches() {
    for (int c : plan_.order) {
      if (!node(c).spec->is_cache) continue;
      const std::set<int> before = upstream(c);
      frozen(c, before);
      skips_writing(c, before);
      for (int i : before) node(i).feeds_cache = true;
      // The prefix: nodes whose every path ends in this cache. In reverse topological order.
      std::set<int> prefix{c};
      for (auto it = plan_.order.rbegin(); it != plan_.order.rend(); ++it) {
        PlanNode& n = node(*it);
        if (n.is_source() || !before.count(*it)) continue;
        bool all = !n.is_sink();
        for (const auto& port : n.outs)
          for (const PlanEdge& e : port) all &= prefix.count(e.to) > 0;
        if (!all) continue;
        prefix.insert(*it);
        n.prefix_of.push_back(c);
      }
      plan_.streams[node(c).stream].caches.push_back(c);
    }
  }

  // ---- runs of transforms that are done together
  // --------------------------------------------------
  void runs() {
    if (!graph_.run.fuse && !graph_.run.lazy) return;
    for (int i : plan_.order) {
      node(i).narrow = node(i).spec->is_cache && all_readers_fuse(i);
      PlanRun run;
      for (int at = i; at >= 0; at = next_of_run(at)) {
        if (!fuses(at, !run.nodes.empty()) || (run.nodes.empty() && !works(at))) break;
        run.nodes.push_back(at);
        run.batched = node(at).spec->fusing == Fuses::batches;
        run.resamplings += node(at).spec->fusing == Fuses::resamples;
      }
      const bool held = held_anyway(run);
      if (run.batched && !held && !on_device(run.nodes.back())) {
        run.nodes.pop_back();
        run.batched = false;
      }
      while (!run.nodes.empty() && !works(run.nodes.back())) run.nodes.pop_back();
      if (run.nodes.size() < 2) continue;
      if (graph_.run.lazy) run.resamplings = std::min(run.resamplings, 1);
      for (int at : run.nodes) {
        node(at).run = static_cast<int>(plan_.runs.size());
        if (at != run.nodes.back()) node(at).leaves = Leaves::always;
      }
      if (run.batched && !held) node(run.nodes[run.nodes.size() - 2]).leaves = Leaves::on_device;
      plan_.runs.push_back(std::move(run));
    }
  }

  // A cache or a move to the device hands on what it gets, as narrow as it is.
  bool all_readers_fuse(int i) const {
    for (const auto& port : plan_.nodes[i].outs)
      for (const PlanEdge& e : port) {
        const Spec& s = *plan_.nodes[e.to].spec;
        const bool hands_on = s.is_cache ? !keeps_for_later(e.to) : moves_samples(s);
        if (s.fusing == Fuses::no && !(hands_on && all_readers_fuse(e.to))) return false;
      }
    return true;
  }
  bool works(int i) const { return plan_.nodes[i].spec->fusing != Fuses::fields; }
  bool on_device(int i) const {
    return plan_.nodes[plan_.nodes[i].inputs.front().from].flow.moved_by >= 0;
  }

  // Work that is left to a batch keeps whole volumes alive until then. On the host that costs
  // nothing where a cache holds them in any case; else patches are smaller.
  bool held_anyway(const PlanRun& run) const {
    if (run.nodes.empty()) return false;
    const auto in_front = [&](int i) { return plan_.nodes[i].inputs.front().from; };
    int from = in_front(run.nodes.front());
    while (moves_samples(*plan_.nodes[from].spec)) from = in_front(from);
    return plan_.nodes[from].spec->is_cache;
  }

  // A 1:n node may begin a run: its children leave it with the same work pending.
  bool fuses(int i, bool behind) const {
    const PlanNode& n = plan_.nodes[i];
    const Spec& s = *n.spec;
    if (n.run >= 0 || s.fusing == Fuses::no || n.inputs.empty()) return false;
    if (s.fusing == Fuses::batches) return behind;
    return !s.is_ordered && !n.gate && n.inputs.size() == 1 &&
           (s.arity == Arity::one_to_one || (s.arity == Arity::expand && !behind));
  }

  // The one node that alone reads what this one emits; -1 where it is not so.
  int next_of_run(int i) const {
    const PlanNode& n = plan_.nodes[i];
    if (n.spec->fusing == Fuses::batches || n.outs.size() != 1 || n.outs.front().size() != 1)
      return -1;
    const PlanNode& to = plan_.nodes[n.outs.front().front().to];
    // What goes wrong with the work of all is said, and judged, by the last.
    const bool alike = to.lane == n.lane && to.graph->on_error == n.graph->on_error;
    return alike ? n.outs.front().front().to : -1;
  }

  // ---- segments and their credits ---------------------------------------------------------------
  struct Hold {
    int total = 0;
    std::string text;
  };

  void segments() {
    for (int i : plan_.order) {
      PlanNode& n = node(i);
      if (!n.is_source() && !n.gate) {
        n.segment = node(n.inputs.front().from).segment;
        continue;
      }
      n.segment = i;
      Hold hold;
      std::set<int> seen;
      held_behind(i, hold, seen);
      n.need = 1 + hold.total;
      n.why = "1" + hold.text;
      credits(i);
    }
  }

  // Sums what the nodes behind `i`, up to the next gates, hold back of its segment.
  void held_behind(int i, Hold& hold, std::set<int>& seen) {
    for (const auto& port : node(i).outs)
      for (const PlanEdge& e : port) {
        if (!seen.insert(e.to).second) continue;
        const PlanNode& n = node(e.to);
        const bool holds = n.spec->arity == Arity::gather || n.spec->arity == Arity::shuffle;
        if (holds && n.count > 1) {
          hold.total += n.count - 1;
          hold.text += " + " + std::to_string(n.count - 1) + " held by \"" + n.path() + "\"";
        }
        if (!n.gate) held_behind(e.to, hold, seen);
      }
  }

  void credits(int i) {
    PlanNode& n = node(i);
    const std::string& name = n.spec->credits_param;
    const bool moves = moves_samples(*n.spec);
    if (n.turns >= 0 && n.training) {
      n.credits = 1;  // the training region: one batch at a time holds the weights
    } else if (n.turns >= 0) {
      n.credits = n.need + 1;
    } else if (moves && (options_.device || given(n, name))) {
      n.credits = moved_at_once(n);
    } else if (!name.empty() && !moves) {
      n.credits = param<int>(n, name, 1);
      if (!given(n, name)) n.credits = std::max(n.credits, n.need);
    } else {
      n.credits = n.need - 1 + std::max(4, 2 * options_.threads);
      if (n.spec->is_cache) n.credits += n.count - 1;
    }
    if (n.credits >= n.need) return;
    error_at(i, name, "SL0430",
             "the segment that begins at \"" + path(i) + "\" has " + std::to_string(n.credits) +
                 (n.credits == 1 ? " credit" : " credits") + " but needs " +
                 std::to_string(n.need) + " (" + n.why + "): it would stand still",
             n.training ? "move the batch in front of the training region"
                        : "set \"" + name + "\" to " + std::to_string(n.need) + " or more");
  }

  // Nodes that finish whatever comes, cut or not. A batch that a training region's gate admitted
  // counts as trained on, so it must reach every updater and every sink behind it; and validation
  // sinks must agree whether their turn is complete. That holds for what stands behind a turn's
  // gate and for side branches that are joined there.
  std::set<int> admitted() const {
    std::set<int> finish, front;
    for (int i = 0; i < size(); ++i) {
      const PlanNode& n = plan_.nodes[i];
      if (!n.gate || n.turns < 0) continue;
      finish.merge(downstream(i));
      front.merge(upstream(i));
      front.insert(i);
    }
    for (int i : std::set<int>(finish)) finish.merge(upstream(i));
    for (int i : front) finish.erase(i);
    return finish;
  }

  // Gates and what stands in front of them drop at a cut.
  void cuts() {
    const std::set<int> finish = admitted();
    for (auto it = plan_.order.rbegin(); it != plan_.order.rend(); ++it) {
      PlanNode& n = node(*it);
      if (finish.count(*it)) continue;
      for (const auto& port : n.outs)
        for (const PlanEdge& e : port) n.aborts |= node(e.to).discards;
      n.discards = n.gate || n.aborts;
    }
  }

  void device_budget() {
    const auto& budget = graph_.run.device_budget;
    const DeviceNeed need = device_need(plan_);
    if (!budget || need.bytes() <= static_cast<std::uint64_t>(*budget)) return;
    std::string what = need.text();
    if (need.budgets > 0)
      what += (what.empty() ? "" : ", and ") + in_bytes(static_cast<double>(need.budgets)) +
              " of caches' budgets";
    diagnostics_.error("SL0431",
                       "run.device_budget is " + in_bytes(static_cast<double>(*budget)) +
                           ", but there may be on the device " + what,
                       Place{graph_.document, "/run/device_budget"}, "run.device_budget",
                       "raise it, or lower what the nodes named here hold (\"ahead\", \"budget\")");
  }

  // The metric of run.stop must be known between two turns, whatever the timing.
  void stop_rule() {
    const auto& stop = graph_.run.stop;
    if (!stop) return;
    const auto dot = stop->metric.rfind('.');
    const std::string name = stop->metric.substr(0, dot);
    const int i = dot == std::string::npos ? -1 : graph_.find(name);
    std::vector<std::string> fit;
    for (const PlanTurns& t : plan_.turns) {
      for (int s : t.sinks) fit.push_back(path(s));
      for (int u : t.updaters) fit.push_back(path(u));
    }
    if (i >= 0 && std::find(fit.begin(), fit.end(), name) != fit.end())
      return reported(i, stop->metric.substr(dot + 1), *stop);
    std::string hint;
    if (const std::string meant = nearest(name, fit); !meant.empty())
      hint = "did you mean \"" +
             (dot == std::string::npos ? example_metric(graph_.find(meant))
                                       : meant + stop->metric.substr(dot)) +
             "\"?";
    else if (!fit.empty())
      hint = "for example \"" + example_metric(graph_.find(fit.front())) + "\"";
    diagnostics_.error("SL0440",
                       "run.stop.metric \"" + stop->metric +
                           "\" is no metric of a validation sink or an updater: those alone are "
                           "complete when the rule is applied",
                       stop->place, "run.stop.metric", hint);
  }

  std::string example_metric(int i) const {
    const auto& names = plan_.nodes[i].spec->metrics;
    return path(i) + "." + (names.empty() ? "metric" : names.front());
  }

  // Whether the node says that it reports this metric; one that declares none may report any.
  void reported(int i, const std::string& metric, const StopRule& stop) {
    const auto& known = node(i).spec->metrics;
    const auto fits = [&](const std::string& name) {
      return name.ends_with('*') ? metric.starts_with(name.substr(0, name.size() - 1))
                                 : metric == name;
    };
    if (known.empty() || std::any_of(known.begin(), known.end(), fits)) return;
    std::string list;
    for (const auto& name : known) list += (list.empty() ? "\"" : ", \"") + name + "\"";
    const std::string meant = nearest(metric, known);
    diagnostics_.error(
        "SL0441",
        "\"" + path(i) + "\" (" + node(i).spec->name + ") has no metric \"" + metric + "\"",
        stop.place, "run.stop.metric",
        meant.empty() ? "it has " + list : "did you mean \"" + path(i) + "." + meant + "\"?");
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

  int size() const { return static_cast<int>(plan_.nodes.size()); }

  const Graph& graph_;
  const PlanOptions& options_;
  Diagnostics& diagnostics_;
  Plan plan_;
};

}  // namespace

std::optional<Plan> make_plan(const Graph& graph, const PlanOptions& options,
                              Diagnostics& diagnostics) {
  return Planner(graph, options, diagnostics).run();
}

}  // namespace sluice
