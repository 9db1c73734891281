// Rates that fall with the depth of a parameter's layer, from the output to the input (Clark et al.
// 2020; as timm's param_groups_layer_decay).
#pragma once

#include <string>
#include <vector>

namespace sluice {

// The factor of each name's rate: decay^(layers - depth). A layer is a pattern (a regular
// expression found in the names), or, where it has a group around a number, one for each of its
// numbers; they stand from the input to the output, and names that no pattern is found in are
// behind all of them, with the factor 1. Throws where a pattern is none, or is in no name.
std::vector<double> layer_factors(double decay, const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& names);

}  // namespace sluice
