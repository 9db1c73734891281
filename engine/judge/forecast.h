// What a run's throughput would be if something were otherwise: packets are moved through the plan
// by a discrete-event simulation, with the times that a profile measured at the nodes.
//
//   PlanCosts costs = PlanCosts::of(plan, figures);
//   double now  = forecast(plan, threads, costs);        // samples a second
//   costs.nodes[load].service_s = 0;
//   double then = forecast(plan, threads, costs);        // ... with a load that costs nothing
//
// Modelled: lanes and their threads, limits and order of nodes, segments and their credits, n:1 and
// 1:n nodes, what nodes of a run leave to its last one, filters, what caches pass, turns of
// training and validation, and the machine's cores, which bodies share when they compute (the step
// lane comes first; the data threads have the rest). Not modelled: that packets differ (each costs
// the mean), memory bandwidth, caches that fill.
//
// Invariant: a pure function of its arguments; ends after a bounded number of events.
#pragma once

#include <vector>

#include "engine/judge/figures.h"
#include "engine/plan/plan.h"

namespace sluice {

struct NodeCost {
  double service_s = 0;  // of one body alone on a core; of what it leaves to another node too
  double cpu = 1;        // share of that in which it computes: the cores that it uses
  double fires = 1;      // share of what comes in that its body works on; the rest passes for free;
                         // of a source: of its items that it makes, which no cache has
  double emits = 1;      // share of its firings that emit something
  double children = 1;   // of a 1:n node, a firing
};

struct PlanCosts {
  std::vector<NodeCost> nodes;      // by plan index
  std::vector<std::int64_t> epoch;  // by stream: packets of its source; -1: unknown, so no turns
  // From what was measured, by the nodes' paths: `plan` may be another than the measured one, and
  // a node that was not measured costs nothing.
  static PlanCosts of(const Plan& plan, const Plan& measured, const Figures& figures);
};

// Samples of the pace stream's source a second; 0 where nothing moves.
double forecast(const Plan& plan, const Threads& threads, const PlanCosts& costs);

}  // namespace sluice
