// Objects inside of a parameter's value, against a Spec, where a node or a network opens.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

// Throws a usage error that begins with `at` for a key that the Spec does not have (`unknown` says
// so in words: "no key is called") and for a value that cannot be its parameter's. `also`: keys
// that others read.
void check_members(const Json& written, const Spec& spec, const std::string& at,
                   const std::string& unknown, const std::vector<std::string>& also = {});

}  // namespace sluice
