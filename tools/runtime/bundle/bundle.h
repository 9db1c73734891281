// `sluice new bundle`: a MONAI bundle as a graph, and a report of what became of each part.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"folder", "out" (""; stdout), "configs", "set", "task": inference or train, "strict", "partial"}
int new_bundle(const Json& request);

}  // namespace sluice
