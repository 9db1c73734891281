// The functions behind nodes whose draws no parameter can force, by the names of the cases.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/spec.h"
#include "engine/state/sample.h"

namespace sluice::monai {

// Throws std::logic_error where there is no such function.
std::vector<Sample> run_kernel(const std::string& name, const Json& params, const Sample& in);

}  // namespace sluice::monai
