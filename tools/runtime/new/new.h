// `sluice new`: looks at a folder with data and writes a graph for it.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// {"kind": "segmentation", "folder", "out" (""; stdout), "weights"}; "bundle": see bundle.h
int new_command(const Json& request);

}  // namespace sluice
