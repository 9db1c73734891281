// A source whose epochs are what a node of its stream makes of its list (Node::epoch_items), in
// that node's order, or shuffled where the source is.
//
// Invariant: an epoch's items depend on the epoch and the list alone. So a resumed run goes on
// with the same, and the source may run ahead into the next epochs: that is how their new items are
// computed while this one is trained on.
#pragma once

#include <memory>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/node.h"

namespace sluice {

// Puts one in place of each source that needs it. All nodes are open; by plan index.
void window_sources(const Plan& plan, std::vector<std::unique_ptr<Node>>& nodes);

}  // namespace sluice
