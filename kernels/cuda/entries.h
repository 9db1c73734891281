// The launchers of the .cu files, as table.cu collects them. Documented in table.h.
#pragma once

#include "kernels/cuda/table.h"

namespace sluice::kernels {

int cuda_augment(const AugmentJob* jobs, int count, void* workspace, void* stream);

}  // namespace sluice::kernels
