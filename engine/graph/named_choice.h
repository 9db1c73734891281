// Parameters of any JSON that take a name, alone or with arguments, as MONAI's norms and
// activations do: "instance", "INSTANCE", ["instance", {"affine": true}].
#pragma once

#include "engine/base/letter_case.h"
#include "engine/graph/spec.h"

namespace sluice {

// Whether its value, or the first entry of a list, is one of its choices; their case does not
// matter.
inline bool takes_a_name(const ParamSpec& p) {
  return p.type.starts_with("json") && !p.choices.empty();
}

}  // namespace sluice
