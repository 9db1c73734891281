// What a cache knows of the nodes upstream of it: the lineage of its samples (plan/lineage.h), and
// its source's items.
#pragma once

#include <functional>

#include "engine/plan/plan.h"
#include "engine/run/node.h"

namespace sluice {

// `node` finds a node by its plan index once all are open.
Upstream upstream_of(const Plan& plan, int cache, const std::function<Node*(int)>& node);

}  // namespace sluice
