// blend_voxel.h's work on the CPU, over plain pointers.
#pragma once

#include "kernels/infer/blend_voxel.h"

namespace sluice::kernels {

// A call that blend_problem() finds something wrong with is an Error.
void blend(const BlendCall& call);
void blend_finish(const BlendFinish& finish);

}  // namespace sluice::kernels
