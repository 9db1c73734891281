// `sluice data check`, `index` and `diff`.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

int data_command(const Json& request);

// Error (usage) where a request about a folder names other things too.
void require_alone(const Json& request);

// data_index.cpp
int index_data(const Json& request);
int diff_data(const Json& request);

}  // namespace sluice
