// `sluice apply`: one node on files, for trying it out and for comparing it with other software.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// {"type", "params" (checked and complete), "in", "out", "grad" and "out_grad" ([[key, file],
// ...]), "check_grad", "seed", "json"}
int apply_command(const Json& request);

}  // namespace sluice
