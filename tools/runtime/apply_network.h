// `sluice apply NETWORK`: one forward pass of a network on files, with gradients to its inputs and
// to any of its parameters.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// apply_command's request, with {"weights": {"file", "key", "strip_prefix", "partial"} or null,
// "train"}. Outputs are "pred", "pred_1", ...; "state" is a .safetensors file of all tensors, or of
// the gradients to all parameters.
int apply_network(const Json& request, const Spec& spec);

}  // namespace sluice
