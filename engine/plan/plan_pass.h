// What the passes of make_plan share: the plan in the making, its graph, and how errors are said.
// Each pass is a class of its own in a file plan_*.cpp, and fills in a part of every PlanNode:
//
//   plan.cpp         lanes, order, streams, domains, what is known of the samples
//   plan_turns.cpp   who holds an updated network when, and how many epochs there are
//   plan_gradients.cpp what each updater's backward pass goes through
//   plan_shards.cpp  how batches are divided over packets and processes
//   plan_caches.cpp  what caches skip
//   plan_runs.cpp    transforms that are done together
//   plan_credits.cpp segments, credits, cuts, the device's budget
//   plan_metrics.cpp metrics that run.stop or a node waits for
//   idle_params.cpp  parameters that change nothing as the others stand
#pragma once

#include <set>
#include <string>

#include "engine/plan/plan.h"

namespace sluice {

class PlanPass {
 public:
  PlanPass(Plan& plan, const PlanOptions& options, Diagnostics& diagnostics)
      : plan_(plan), graph_(*plan.graph), options_(options), diagnostics_(diagnostics) {}

 protected:
  Diagnostic& error(int n, std::string code, std::string message, std::string hint = "");
  // At a member of the node where it is written, else at the node's name.
  Diagnostic& error_at(int n, const std::string& key, std::string code, std::string message,
                       std::string hint = "");

  int size() const { return static_cast<int>(plan_.nodes.size()); }
  PlanNode& node(int n) { return plan_.nodes[n]; }
  const std::string& path(int n) const { return plan_.nodes[n].path(); }

  template <class T>
  T param(const PlanNode& n, const std::string& name, T otherwise) const {
    if (name.empty() || !n.graph->params.contains(name)) return otherwise;
    const Json& v = n.graph->params.at(name);
    return v.is_null() ? otherwise : v.get<T>();
  }

  // Numbers of samples and of credits are ints, and sums of a few of them must be.
  static constexpr std::int64_t most_samples = 1 << 28;
  // The number as an int; 1 and a diagnostic at the node's `key` where it is larger than that.
  int at_most(const PlanNode& n, const std::string& key, std::int64_t samples,
              const std::string& what = "");

  // All nodes reachable from `from` (not itself) / from which `to` can be reached.
  std::set<int> downstream(int from) const;
  std::set<int> upstream(int to) const;

  // Whether somebody updates the network.
  bool learns(const std::string& network) const;

  Plan& plan_;
  const Graph& graph_;
  const PlanOptions& options_;
  Diagnostics& diagnostics_;
};

void plan_turns(const PlanPass& pass);
void plan_gradients(const PlanPass& pass);
void plan_shards(const PlanPass& pass);
void plan_caches(const PlanPass& pass);
void plan_runs(const PlanPass& pass);
void plan_credits(const PlanPass& pass);
void check_metrics(const PlanPass& pass);
void check_idle_params(const PlanPass& pass);

}  // namespace sluice
