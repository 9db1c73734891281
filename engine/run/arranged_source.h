// A source in an order that it does not make itself: an epoch is what a node of its stream makes of
// its list (Node::epoch_items), in that node's order, or shuffled where the source is; or, by
// shard, its list dealt out to shards once, each of which shuffles its own.
//
// Invariant: an epoch's items depend on the epoch, the seed and the list alone. So a resumed run
// goes on with the same, and the source may run ahead into the next epochs: that is how a window's
// new items are computed while this one is trained on.
#pragma once

#include <memory>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/node.h"

namespace sluice {

// Puts one in place of each source that needs it. All nodes are open; by plan index.
void arrange_sources(const Plan& plan, std::uint64_t seed,
                     std::vector<std::unique_ptr<Node>>& nodes);

}  // namespace sluice
