// `sluice weights`: what a file of weights holds, and the same as safetensors.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"file", "key", "strip_prefix", "out", "json"}
int weights_command(const Json& request);

}  // namespace sluice
