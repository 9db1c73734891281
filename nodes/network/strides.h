// The extents that a network of strides takes: multiples of the strides' product along each axis,
// so that what goes up again fits beside what was there on the way down. The plan holds the extents
// it knows against the same product (engine/plan/field_checks.cpp).
#pragma once

#include "nodes/network/built_network.h"

namespace sluice {

// What BuiltNetwork::unfit() says; each of `strides` is a number, or one an axis.
inline std::string unless_strides_divide(at::IntArrayRef extents,
                                         const std::vector<std::vector<std::int64_t>>& strides) {
  std::vector<std::int64_t> steps(extents.size(), 1);
  for (const auto& stride : strides) {
    const auto by = PerAxis(stride).over(static_cast<int>(extents.size()));
    for (std::size_t a = 0; a < steps.size(); ++a) steps[a] *= by[a];
  }
  for (std::size_t a = 0; a < steps.size(); ++a)
    if (extents[a] % steps[a] != 0)
      return "takes extents that are multiples of " + std::to_string(steps[a]) + " along axis " +
             std::to_string(a) + ", got " + c10::str(extents);
  return "";
}

}  // namespace sluice
