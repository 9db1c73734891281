// Segments and their credits, what a cut drops, and what that comes to on a device.
#include <algorithm>
#include <set>

#include "engine/plan/cache_need.h"
#include "engine/plan/device_need.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Credits : PlanPass {
 public:
  explicit Credits(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
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
      n.need = at_most(n, "", 1 + hold.total,
                       "the segment that begins at \"" + path(i) + "\" needs " +
                           std::to_string(1 + hold.total) + " credits (1" + hold.text + ")");
      n.why = "1" + hold.text;
      credits(i);
    }
    cuts();
    device_budget();
  }

 private:
  struct Hold {
    std::int64_t total = 0;
    std::string text;
  };

  // Sums what the nodes after `i`, up to the next gates, hold back of its segment.
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

  // A cache of samples that are on a device.
  static bool is_there(const PlanNode& n) { return n.spec->is_cache && n.flow.moved_by >= 0; }

  void credits(int i) {
    PlanNode& n = node(i);
    const std::string& name = n.spec->credits_param;
    const bool moves = moves_samples(*n.spec);
    if (moves) at_most(n, name, param<std::int64_t>(n, name, 1));
    if (n.takes_turns && n.training) {
      n.credits = 1;  // the training region: one batch at a time holds the weights
    } else if (n.takes_turns) {
      n.credits = n.need + 1;
    } else if ((moves && n.graph->is_given(name)) || (options_.device && (moves || is_there(n)))) {
      n.credits = moved_at_once(plan_, n);
    } else if (!name.empty() && !moves) {
      n.credits = at_most(n, name, param<std::int64_t>(n, name, 1));
      if (!n.graph->is_given(name)) n.credits = std::max(n.credits, n.need);
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
  // counts as trained on, so it must reach every updater and every sink after it; and validation
  // sinks must agree whether their turn is complete. That holds for what stands after a turn's
  // gate and for side branches that are joined there.
  std::set<int> admitted() const {
    std::set<int> finish, front;
    for (int i = 0; i < size(); ++i) {
      const PlanNode& n = plan_.nodes[i];
      if (!n.gate || !n.takes_turns) continue;
      finish.merge(downstream(i));
      front.merge(upstream(i));
      front.insert(i);
    }
    for (int i : std::set<int>(finish)) finish.merge(upstream(i));
    for (int i : front) finish.erase(i);
    return finish;
  }

  // Gates and what stands before them drop at a cut.
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
};

}  // namespace

void plan_credits(const PlanPass& pass) { Credits(pass).run(); }

}  // namespace sluice
