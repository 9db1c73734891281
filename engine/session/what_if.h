// What-if questions of `sluice profile`: a change in words, what a run would give after it
// (engine/judge/forecast.h), and the run that proves it.
//
//   threads=4, io_threads=4     data threads, reading threads
//   load.threads=4, run.x=..    any value of the graph, as behind --set; "nodes." may be left out
//   free:load                   the node's body costs nothing: it is left out where it is one of
//                               several that are done together and changes values alone; else what
//                               it emits is made once, and the others are done apart
//   null:data, null:model       so do all nodes before the step lane, or all on it
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/judge/figures.h"
#include "engine/run/node.h"
#include "engine/session/options.h"

namespace sluice {

struct WhatIf {
  std::string text;
  Options options;                      // those of the run, changed
  std::vector<std::string> left_out{};  // of what is free
};

// Throws Error (usage) where `text` names nothing that is there.
WhatIf parse_what_if(const std::string& text, const Plan& plan, const Options& options);

struct Prediction {
  double before = 0, after = 0;  // samples a second: as measured, and as predicted
};
// Nullopt after printing diagnostics where the changed graph is not right.
std::optional<Prediction> predict(const WhatIf& what, const Plan& plan, const Figures& figures);

// A node that fires `node` once and from then on emits what it emitted. It stands in for "costs
// nothing" in a run that verifies that; what such a run computes is of no use.
std::unique_ptr<Node> free_of_cost(std::unique_ptr<Node> node);

}  // namespace sluice
