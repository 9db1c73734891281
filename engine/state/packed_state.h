// A State as one string, for the way between processes; and values of a State as a tensor's bytes,
// where there may be many: a checkpoint's JSON has a bound.
#pragma once

#include <string>

#include "engine/state/checkpoint.h"

namespace sluice {

std::string packed_state(const State& state);
// Throws DataError where the text is none of the above.
State unpacked_state(const std::string& text);

at::Tensor packed_json(const Json& values);  // text need not be UTF-8
Json unpacked_json(const at::Tensor& packed);

}  // namespace sluice
