// Which nodes the live block shows: the busiest, in the order in which samples pass them.
//
// Invariant: the one that limits is among them; a node leaves only for one that is clearly busier,
// so rows do not jump with every redraw.
#pragma once

#include <vector>

#include "engine/judge/verdict.h"
#include "tools/live/block.h"

namespace sluice::live {

class Rows {
 public:
  explicit Rows(const Plan& plan) : plan_(plan) {}
  std::vector<NodeRow> pick(const Figures& figures, const Verdict& verdict, std::size_t most);

 private:
  const Plan& plan_;
  std::vector<int> shown_;  // plan indices
};

}  // namespace sluice::live
