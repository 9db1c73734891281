// Caches: what stands before one, and what must not.
#include <set>

#include "engine/graph/networks_of.h"
#include "engine/plan/cache_need.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Caches : PlanPass {
 public:
  explicit Caches(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
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
        if (!before.count(*it)) continue;
        bool all = !n.is_sink();
        for (const auto& port : n.outs)
          for (const PlanEdge& e : port) all &= prefix.count(e.to) > 0;
        if (!all) continue;
        prefix.insert(*it);
        (n.is_source() ? n.spared_by : n.prefix_of).push_back(c);
      }
      plan_.streams[node(c).stream].caches.push_back(c);
    }
  }

 private:
  // What gives something else in every epoch belongs after the cache: the first such node is
  // named.
  void frozen(int c, const std::set<int>& before) {
    int first = -1;
    std::vector<std::string> more;
    std::string why;
    for (int i : plan_.order) {
      if (!before.count(i)) continue;
      const Spec& s = *node(i).spec;
      const bool changes = uses_a_learner(graph_, *node(i).graph);
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

  // What is done once for all runs must leave nothing but its sample.
  void skips_writing(int c, const std::set<int>& before) {
    if (!keeps_for_later(node(c))) return;
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
};

}  // namespace

void plan_caches(const PlanPass& pass) { Caches(pass).run(); }

}  // namespace sluice
