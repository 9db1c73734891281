// A turn's place as checkpoints keep it: {"epoch": 4}, or {"epoch": 4, "validation": "val"} for the
// epoch's validation by that source. Not its number: with more epochs the same turn has another
// one, since validation always follows the last epoch.
#pragma once

#include <cstddef>

#include "engine/plan/plan.h"

namespace sluice {

// The number past the last one is the epoch after the last.
Json turn_place(const Plan& plan, std::size_t turn);
// The first turn of this plan that is not before the place.
std::size_t turn_at(const Plan& plan, const Json& place);

}  // namespace sluice
