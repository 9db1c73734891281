// Runs of transforms that are done together.
#include <algorithm>

#include "engine/plan/cache_need.h"
#include "engine/plan/device_need.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Runs : PlanPass {
 public:
  explicit Runs(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
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

 private:
  // A cache or a move to the device hands on what it gets, as narrow as it is.
  bool all_readers_fuse(int i) const {
    for (const auto& port : plan_.nodes[i].outs)
      for (const PlanEdge& e : port) {
        const Spec& s = *plan_.nodes[e.to].spec;
        const bool hands_on = s.is_cache ? !keeps_for_later(plan_.nodes[e.to]) : moves_samples(s);
        if (s.fusing == Fuses::no && !(hands_on && all_readers_fuse(e.to))) return false;
      }
    return true;
  }

  bool apart(const PlanNode& n) const {
    const auto& all = options_.apart;
    return std::find(all.begin(), all.end(), n.path()) != all.end();
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
    if (n.run >= 0 || s.fusing == Fuses::no || n.inputs.empty() || apart(n)) return false;
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
};

}  // namespace

void plan_runs(const PlanPass& pass) { Runs(pass).run(); }

}  // namespace sluice
