// A State as one string, for the way between processes.
#pragma once

#include <string>

#include "engine/state/checkpoint.h"

namespace sluice {

std::string packed_state(const State& state);
// Throws DataError where the text is none of the above.
State unpacked_state(const std::string& text);

}  // namespace sluice
