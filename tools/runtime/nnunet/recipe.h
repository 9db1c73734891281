// `sluice new segmentation DIR --recipe nnunet`: measures, plans and writes graphs.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// {"folder", "out", "planner", "gpu_memory", "fingerprint" (""; a file),
// "write_fingerprint" (""; a file), "plan_only", "json", "folds"}
int new_nnunet(const Json& request);

}  // namespace sluice
