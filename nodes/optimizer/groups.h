// Groups of parameters with a learning rate, a weight decay or a beginning of their own
// (torch's parameter groups, MONAI's generate_param_groups; freezing).
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace sluice {

struct ParameterSettings {
  double lr = 0, weight_decay = 0;
  std::uint64_t from_epoch = 0;  // frozen before it
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
};

// Each name's settings; `others` are those of names in no group. Throws where a group has an
// unknown key, a value of the wrong type, or no parameter, and where a parameter is in two.
std::vector<ParameterSettings> group_settings(const std::vector<Json>& groups,
                                              const std::vector<std::string>& names,
                                              const ParameterSettings& others);

}  // namespace sluice
