// The picture of a plan as Graphviz text.
//
//   box = node, folder = source, double = sink, cylinder = network; colour = lane;
//   a part is a titled box, a segment a dotted one that begins where the credits stand;
//   a node's last line tells which fields leave it other than they came.
//
// The measured picture fills a node from the left by its busy share and draws an edge the wider,
// the less its reader has to wait for input: the thick path ends at the bottleneck, which is red.
//
// In SVG, nodes have the ids node0, node1, ... by plan index, networks network0, ... likewise.
//
// Invariant: a pure function of the Plan and of what was measured, so pictures can be compared as
// text. Nodes that were not measured stay as they are.
#pragma once

#include <string>

#include "engine/judge/figures.h"
#include "engine/plan/plan.h"

namespace sluice {

struct DotOptions {
  Figures figures;    // of a run; empty: the plan alone
  std::string state;  // of that run, for the title: "stalled"
  std::string note;   // why, for the title
  int fault = -1;     // the node that failed, by plan index; it is red instead of a bottleneck
  bool judge = true;  // say what limits
  std::string base;   // the folder in which the picture will lie: links are relative to it
};

std::string to_dot(const Plan& plan, const DotOptions& options = {});

}  // namespace sluice
