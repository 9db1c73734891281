// `sluice new`: looks at a folder with data and writes a graph for it.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// {"kind": "segmentation", "folder", "out" (""; stdout), "weights"}; "bundle": see bundle.h
int new_command(const Json& request);

// A graph that `sluice check` would refuse is a fault of ours, and is not handed out.
void must_be_right(const std::string& text);

}  // namespace sluice
