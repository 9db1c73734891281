// What the plan and the graph's settings say to a node that is opened. The caller adds what the
// process has: resources, devices, folders.
#pragma once

#include "engine/plan/plan.h"
#include "engine/run/node.h"

namespace sluice {

inline OpenContext planned_context(const Plan& plan, int index) {
  const PlanNode& n = plan.nodes[static_cast<std::size_t>(index)];
  const RunSettings& run = plan.graph->run;
  OpenContext context;
  context.node = n.path();
  context.seed = static_cast<std::uint64_t>(run.seed);
  context.epochs = static_cast<std::uint32_t>(run.epochs);
  context.training = n.training;
  context.division = plan.streams[static_cast<std::size_t>(n.stream)].division;
  context.leaves = n.leaves;
  context.narrow = n.narrow;
  context.stays = n.stays;
  context.fuse = run.fuse || run.lazy;
  context.lazy = run.lazy;
  return context;
}

}  // namespace sluice
