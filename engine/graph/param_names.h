// Names that people try for a parameter: other words for it, and typing errors.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// Which parameter might have been meant by a name that there is not; "" where none is near.
std::string meant_param(const std::string& name, const std::vector<std::string>& known);

}  // namespace sluice
