// `sluice weights`: what a file of weights holds, and the same in another form.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"file", "key", "strip_prefix", "out", "json", "brief"}; `out` is .safetensors, or .pth in a
// folder of nnU-Net's; brief: without a line for each tensor.
int weights_command(const Json& request);

}  // namespace sluice
