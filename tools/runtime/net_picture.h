// `sluice dot --net`: a network step by step, as Graphviz text: what each computes, the size of
// what it makes of one sample, its weights and multiply-adds. Names are those of the state_dict.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"run", "net", "size", "out": a file; "": stdout}.
int net_picture_command(const Json& request);

}  // namespace sluice
