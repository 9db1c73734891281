// Which of a run's processes the others wait for, and why.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice {

// Of each rank's profile.json, in their order: `step` says how long its steps waited for the others
// and for the sum, `nodes` what its bodies took, `host` where it ran. Who waits least is waited
// for, since a sum takes all of them as long; it is named where that costs the others 5 % of a
// step, and with it the node that takes so much longer there, or gets more items. "": nobody is.
std::string straggler(const std::vector<Json>& profiles);

}  // namespace sluice
