#include "engine/judge/advice.h"

#include <algorithm>
#include <optional>

#include "engine/graph/graph_text.h"
#include "engine/plan/cache_need.h"

namespace sluice {
namespace {

using Pointer = nlohmann::json_pointer<std::string>;

std::string quoted(const std::string& name) { return "`" + name + "`"; }

// ---- chains: what stands one after the other ---------------------------------------------------

// Nodes after a source, up to the first that has another arity, keeps state, forks, joins or
// touches a network.
std::vector<int> chain_behind(const Graph& graph, int source) {
  std::vector<std::vector<int>> next(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const GraphInput& in : graph.nodes[i].inputs)
      next[static_cast<std::size_t>(in.from)].push_back(static_cast<int>(i));
  std::vector<int> chain;
  for (int at = source; next[static_cast<std::size_t>(at)].size() == 1;) {
    at = next[static_cast<std::size_t>(at)].front();
    const GraphNode& n = graph.nodes[static_cast<std::size_t>(at)];
    const Spec& s = *n.spec;
    const bool plain = s.arity == Arity::one_to_one && !s.is_ordered && s.access == Access::none &&
                       (!s.is_gate || s.is_cache) && n.inputs.size() == 1 && s.outs.size() == 1 &&
                       s.lane_kind != LaneKind::step && s.lane_kind != LaneKind::copy;
    if (!plain) break;
    chain.push_back(at);
  }
  return chain;
}

std::vector<std::vector<int>> chains(const Graph& graph) {
  std::vector<std::vector<int>> all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].spec->arity == Arity::source)
      all.push_back(chain_behind(graph, static_cast<int>(i)));
  return all;
}

// ---- a node in the text -------------------------------------------------------------------------

// The object of nodes in which it is written, and what refers to it there.
class Wires {
 public:
  explicit Wires(const Graph& graph) : graph_(graph), text(graph.document) {}

  const GraphNode& node(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  std::string at(int i) const { return node(i).place.pointer; }
  std::string scope(int i) const { return at(i).substr(0, at(i).rfind('/')); }
  std::string name(int i) const { return Pointer(at(i)).back(); }

  // Where the one input of a node is written; "" where that is not in this text.
  std::string in(int i) const {
    std::string pointer = at(i) + "/in";
    if (!text.holds(pointer)) return "";
    const Json& value = json(pointer);
    if (value.is_string()) return pointer;
    return value.size() == 1 ? pointer + "/" + value.begin().key() : "";
  }
  std::string input(int i) const { return json(in(i)).get<std::string>(); }

  // Every reference to the node in its scope: inputs, and the out of a part.
  std::vector<std::string> references(int i) const {
    std::vector<std::string> all;
    const Place nodes{graph_.document, scope(i)};
    for (const auto& [key, value] : json(scope(i)).items())
      if (value.is_object() && value.contains("in")) find(nodes.child(key).child("in"), i, all);
    if (scope(i) == "/nodes") return all;
    const Place out{graph_.document, scope(i).substr(0, scope(i).rfind('/')) + "/out"};
    if (json(Pointer(out.pointer).parent_pointer().to_string()).contains("out")) find(out, i, all);
    return all;
  }

  bool editable(int i) const {
    if (in(i).empty()) return false;
    const auto all = references(i);
    return std::all_of(all.begin(), all.end(),
                       [this](const std::string& pointer) { return text.holds(pointer); });
  }

  // A name that its scope does not know yet.
  std::string new_name(int i, const std::string& wish) const {
    for (int number = 1;; ++number) {
      std::string name = wish + (number > 1 ? std::to_string(number) : "");
      if (graph_.find(name) < 0 && !json(scope(i)).contains(name)) return name;
    }
  }

 private:
  const Json& json(const std::string& pointer) const {
    return graph_.document->root.at(Pointer(pointer));
  }
  void find(const Place& place, int i, std::vector<std::string>& all) const {
    const Json& value = json(place.pointer);
    if (value.is_object())
      for (const auto& [key, member] : value.items()) find(place.child(key), i, all);
    else if (value.is_string() && first_part(value.get<std::string>()) == name(i))
      all.push_back(place.pointer);
  }
  static std::string first_part(const std::string& reference) {
    return reference.substr(0, reference.find('.'));
  }

  const Graph& graph_;

 public:
  GraphText text;
};

// ---- what may change places ---------------------------------------------------------------------

bool has(const Spec& s, FieldRule::Act act) {
  return std::any_of(s.rules.begin(), s.rules.end(),
                     [act](const FieldRule& r) { return r.act == act; });
}
bool changes_extents(const Spec& s) {
  using Act = FieldRule::Act;
  return has(s, Act::resizes) || has(s, Act::pads) || has(s, Act::crops);
}
bool gives_fields(const Spec& s) { return has(s, FieldRule::Act::gives); }
// It maps intensities and leaves every voxel where it is.
bool is_intensity(const Spec& s) {
  return has(s, FieldRule::Act::changes) && !changes_extents(s) && !has(s, FieldRule::Act::axes) &&
         !gives_fields(s);
}

bool share_fields(const GraphNode& a, const GraphNode& b) {
  if (!a.params.contains("keys") || !b.params.contains("keys")) return true;
  for (const Json& key : a.params["keys"])
    for (const Json& other : b.params["keys"])
      if (key == other) return true;
  return false;
}

// Whether `fixed`, which comes after `random`, may be moved before it. It may where one permutes
// voxels and the other treats all axes alike, or where one changes intensities and the other the
// geometry. A normalisation after a random scaling stays: it undoes the scaling, and before it
// would not.
std::optional<Change::Effect> may_pass(const GraphNode& fixed, const GraphNode& random) {
  if (fixed.spec->rules.empty() || random.spec->rules.empty()) return std::nullopt;
  if (gives_fields(*fixed.spec)) return std::nullopt;
  if (random.spec->rearranges)
    return is_intensity(*fixed.spec) ? Change::Effect::rounding : Change::Effect::draws;
  if (!is_intensity(*random.spec)) return std::nullopt;
  if (is_intensity(*fixed.spec) && share_fields(fixed, random)) return std::nullopt;
  return Change::Effect::draws;
}

// Moves chain[d] before chain[r]; nothing where the text does not allow it.
std::optional<Change> move_in_front(const Graph& graph, const std::vector<int>& chain,
                                    std::size_t d, std::size_t r) {
  Wires w(graph);
  const int fixed = chain[d], first = chain[r];
  if (!w.editable(fixed) || !w.editable(first) || w.scope(fixed) != w.scope(first))
    return std::nullopt;
  Change change;
  change.title = quoted(w.node(fixed).path) + " in front of " + quoted(w.node(first).path);
  change.why =
      "what is the same in every epoch comes before what is drawn, so that a cache can "
      "hold it";
  const std::string input = w.input(fixed);
  w.text.set(w.in(fixed), w.input(first));
  w.text.set(w.in(first), w.name(fixed));
  for (const auto& pointer : w.references(fixed)) w.text.set(pointer, input);
  w.text.comment(w.at(fixed), "moved in front of " + w.name(first) + ": the same in every epoch");
  change.text = w.text.text();
  return change;
}

std::optional<Change> reorder(const Graph& graph, const std::vector<int>& all) {
  std::vector<int> chain;
  for (int i : all)
    if (!graph.nodes[static_cast<std::size_t>(i)].spec->is_cache) chain.push_back(i);
  const auto at = [&](std::size_t k) -> const GraphNode& {
    return graph.nodes[static_cast<std::size_t>(chain[k])];
  };
  std::size_t r = 0;
  while (r < chain.size() && !at(r).spec->is_random) ++r;
  std::size_t d = r;
  while (d < chain.size() && at(d).spec->is_random) ++d;
  if (d >= chain.size()) return std::nullopt;
  // As far to the front as it may go.
  auto effect = Change::Effect::none;
  for (std::size_t k = d; k-- > r;) {
    const auto passed = may_pass(at(d), at(k));
    if (!passed) return std::nullopt;
    effect = std::max(effect, *passed);
  }
  auto change = move_in_front(graph, chain, d, r);
  if (change) change->effect = effect;
  return change;
}

// ---- caches -------------------------------------------------------------------------------------

struct Prefix {
  int last = -1;            // of the nodes that do the same in every epoch; -1: there is none
  std::vector<int> caches;  // of the whole chain
  bool held = false;        // a cache stands after `last` already
};

Prefix prefix_of(const Graph& graph, const std::vector<int>& chain) {
  Prefix p;
  bool open = true;
  for (int i : chain) {
    const Spec& s = *graph.nodes[static_cast<std::size_t>(i)].spec;
    if (s.is_cache) {
      p.caches.push_back(i);
      p.held |= open;
    } else if (s.is_random) {
      open = false;
    } else if (open) {
      p.last = i;
      p.held = false;
    }
  }
  return p;
}

std::int64_t items_of(const Plan& plan, const Figures& figures, int stream) {
  const int source = plan.streams[static_cast<std::size_t>(stream)].source;
  return figures.nodes[static_cast<std::size_t>(source)].chosen_from();
}

// Bytes that the cache of all items of this node's stream would hold; 0: nobody knows.
double bytes_behind(const Plan& plan, const Figures& figures, const std::string& path) {
  const int i = plan.graph->find(path);
  if (i < 0) return 0;
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
  const auto items = items_of(plan, figures, n.stream);
  return items > 0 ? figures.nodes[static_cast<std::size_t>(i)].mb * 1e6 * double(items) : 0;
}

// What the graph's caches in memory hold by now.
double bytes_held(const Graph& graph, const Plan& plan, const Figures& figures) {
  double bytes = 0;
  for (const GraphNode& n : graph.nodes) {
    if (!n.spec->is_cache || n.params.value("store", "memory") != "memory") continue;
    for (const GraphInput& in : n.inputs)
      bytes += bytes_behind(plan, figures, graph.nodes[static_cast<std::size_t>(in.from)].path);
  }
  return bytes;
}

struct Store {
  Json cache = {{"type", "cache"}};
  std::string cost;
};

Store store_for(double bytes, double memory, double disk) {
  Store s;
  const std::string size = bytes > 0 ? in_bytes(bytes) : "an unknown number of bytes";
  if (bytes > 0 && bytes <= memory) {
    // A cache keeps labels in a byte a voxel where they fit.
    s.cost = "up to " + size + " of memory, of " + in_bytes(memory) + " that may be used";
  } else if (bytes > 0 && bytes <= disk) {
    s.cache["store"] = "auto";
    s.cache["budget"] = static_cast<std::int64_t>(memory);
    s.cost = size + ": " + in_bytes(memory) + " in memory, the rest on disk";
  } else {
    s.cache["budget"] = static_cast<std::int64_t>(memory);
    s.cost = in_bytes(memory) + " of memory for a part of " + size +
             "; the rest is computed in every epoch";
  }
  return s;
}

// A cache behind p.last: the one that stands elsewhere, or a new one.
std::optional<Change> place_cache(const Graph& graph, const Prefix& p, const Store& store) {
  Wires w(graph);
  if (!w.editable(p.last) || w.references(p.last).empty()) return std::nullopt;
  Change change;
  const std::string end = quoted(w.node(p.last).path);
  change.why = "what stands up to " + end + " does the same in every epoch";
  change.cost = store.cost;
  const int old = p.caches.empty() ? -1 : p.caches.front();
  const bool moves = old >= 0 && w.editable(old) && w.scope(old) == w.scope(p.last);
  const std::string name = moves ? w.name(old) : w.new_name(p.last, "cached");
  change.title = (moves ? quoted(w.node(old).path) + " moves behind " : "cache behind ") + end;
  if (old >= 0 && !moves) {
    if (!w.text.holds(w.at(old))) return std::nullopt;
    w.text.set(w.at(old) + "/disabled", true);
    change.title += " instead of " + quoted(w.node(old).path);
  }
  if (moves) {
    const std::string input = w.input(old);
    for (const auto& pointer : w.references(old)) w.text.set(pointer, input);
    w.text.set(w.in(old), w.name(p.last));
    w.text.comment(w.at(old), "moved: what is in front is the same in every epoch");
  } else {
    Json cache = store.cache;
    cache["in"] = w.name(p.last);
    w.text.add_behind(w.at(p.last), name, cache, "what is in front is the same in every epoch");
  }
  for (const auto& pointer : w.references(p.last))
    if (!moves || pointer != w.in(old)) w.text.set(pointer, name);
  change.text = w.text.text();
  return change;
}

// ---- threads and queues -------------------------------------------------------------------------

Change with_value(const Graph& graph, const std::string& pointer, const Json& value,
                  std::string title, std::string why) {
  GraphText text(graph.document);
  if (const auto owner = pointer.substr(0, pointer.rfind('/')); text.holds(owner))
    text.comment(owner, why);
  if (value.is_null())
    text.remove(pointer);
  else
    text.set(pointer, value);
  Change change;
  change.title = std::move(title);
  change.why = std::move(why);
  change.text = text.text();
  return change;
}

bool writable(const Graph& graph, const std::string& pointer) {
  const GraphText text(graph.document);
  const auto parent = pointer.substr(0, pointer.rfind('/'));
  return text.holds(pointer) || text.holds(parent) || parent == "/run";
}

}  // namespace

const char* text_of(Change::Effect effect) {
  constexpr const char* texts[] = {"results stay the same", "results differ in the last bits",
                                   "draws act on something else: other results of the same kind",
                                   "results have fewer bits"};
  return texts[static_cast<int>(effect)];
}

std::vector<int> misplaced_caches(const Graph& graph) {
  std::vector<int> misplaced;
  for (const auto& chain : chains(graph)) {
    bool drawn = false;
    for (int i : chain) {
      const Spec& s = *graph.nodes[static_cast<std::size_t>(i)].spec;
      drawn |= s.is_random;
      if (s.is_cache && drawn) misplaced.push_back(i);
    }
  }
  return misplaced;
}

std::vector<Change> reorder(const Graph& graph) {
  for (const auto& chain : chains(graph))
    if (auto change = reorder(graph, chain)) return {std::move(*change)};
  return {};
}

std::vector<Change> place_caches(const Graph& graph, const Plan& measured, const Figures& figures,
                                 const Room& room) {
  const double held = bytes_held(graph, measured, figures);
  const double memory = std::max(0.0, static_cast<double>(room.memory) - held);
  std::vector<Change> all;
  for (const auto& chain : chains(graph)) {
    const Prefix p = prefix_of(graph, chain);
    if (p.last < 0 || p.held) continue;
    const auto& path = graph.nodes[static_cast<std::size_t>(p.last)].path;
    const Store store =
        store_for(bytes_behind(measured, figures, path), memory, static_cast<double>(room.disk));
    if (auto change = place_cache(graph, p, store)) all.push_back(std::move(*change));
  }
  return all;
}

double share_held(const Plan& plan, int cache, const Plan& measured, const Figures& figures) {
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(cache)];
  const Json budget = n.graph->params.value("budget", Json());
  if (!budget.is_number() || n.graph->params.value("store", "memory") == "auto") return 1;
  const PlanNode& last = plan.nodes[static_cast<std::size_t>(n.inputs.front().from)];
  const double bytes = bytes_behind(measured, figures, last.path());
  return bytes > 0 ? std::min(1.0, budget.get<double>() / bytes) : 0;
}

std::vector<Change> leave_out_caches(const Graph& graph) {
  std::vector<Change> all;
  for (int i : misplaced_caches(graph)) {
    const GraphNode& n = graph.nodes[static_cast<std::size_t>(i)];
    if (writable(graph, n.place.pointer + "/disabled"))
      all.push_back(with_value(graph, n.place.pointer + "/disabled", true,
                               "without " + quoted(n.path),
                               "nothing in front of it is the same in every epoch"));
  }
  return all;
}

std::vector<Change> widen(const Plan& plan, const Threads& threads) {
  const Graph& graph = *plan.graph;
  std::vector<Change> all;
  const auto add = [&](const std::string& pointer, const Json& value, std::string title,
                       std::string why) {
    if (writable(graph, pointer))
      all.push_back(with_value(graph, pointer, value, std::move(title), std::move(why)));
  };
  if (graph.run.threads > 0 && graph.run.threads < threads.cores)
    add("/run/threads", nullptr,
        "data threads " + std::to_string(graph.run.threads) + " → " + std::to_string(threads.cores),
        "data threads give way to the training step, so there may be one a core");
  add("/run/io_threads", 2 * threads.io,
      "io threads " + std::to_string(threads.io) + " → " + std::to_string(2 * threads.io),
      "files are waited for, not worked on");
  for (const PlanNode& n : plan.nodes) {
    const std::string at = n.graph->place.pointer;
    if (n.graph->threads > 0)
      add(at + "/threads", nullptr, quoted(n.path()) + " without a limit of its own",
          "it says \"threads\": " + std::to_string(n.graph->threads));
    const std::string& credits = n.spec->credits_param;
    if (!credits.empty() && n.credits > 0 && !(n.takes_turns && n.training))
      add(at + "/" + credits, 2 * n.credits,
          quoted(n.path()) + ": " + credits + " " + std::to_string(n.credits) + " → " +
              std::to_string(2 * n.credits),
          "more may wait behind it");
  }
  return all;
}

std::vector<Change> try_out(const Graph& graph, const Threads& threads) {
  std::vector<Change> all;
  const auto add = [&](const std::string& pointer, const Json& value, std::string title,
                       std::string why, Change::Effect effect) {
    if (!writable(graph, pointer)) return;
    all.push_back(with_value(graph, pointer, value, std::move(title), std::move(why)));
    all.back().effect = effect;
  };
  if (graph.run.step_threads > 0 && graph.run.step_threads < threads.cores)
    add("/run/step_threads", nullptr,
        "step threads " + std::to_string(graph.run.step_threads) + " → " +
            std::to_string(threads.cores),
        "the training region may use every core", Change::Effect::rounding);
  for (const GraphNode& n : graph.nodes)
    if (n.params.contains("sw_batch_size") && n.params["sw_batch_size"] == 1)
      add(n.place.pointer + "/sw_batch_size", 4, quoted(n.path) + ": 4 windows at a time",
          "one window leaves cores without work", Change::Effect::rounding);
  for (const GraphModel& m : graph.models)
    if (m.params.contains("precision") && m.params["precision"] == "float32")
      add(m.place.pointer + "/precision", "bfloat16", "network " + quoted(m.name) + " in bfloat16",
          "half the bytes, and faster products where the processor has them",
          Change::Effect::precision);
  return all;
}

}  // namespace sluice
