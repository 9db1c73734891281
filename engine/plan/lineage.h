// What a node's samples are computed from, as a text: types and parameters of the nodes between
// the source and it, and the networks that they read.
//
// Invariant: equal lineages give equal samples for equal records of their sources, on one build.
// Names of nodes and what only keeps samples (caches) leave no trace in it, and neither does the
// source: its records are compared by what they are.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace sluice {

struct Lineage {
  std::string text;
  std::vector<std::string> files;     // texts among the parameters: some may name files
  std::vector<std::string> networks;  // that its nodes read
};

Lineage lineage_of(const Plan& plan, int node);

}  // namespace sluice
