// Volumes in the narrowest type that holds them exactly: labels that were made float32 fit a byte
// a voxel, scanners' values two.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

// [C, X, Y, Z] or [C, X, Y] as uint8, else as int16, where every value comes back to the bit (so
// no -0.0 and no NaN); undefined where that is not so, where it is as narrow already or where the
// volume is not on the CPU.
at::Tensor narrowed(const at::Tensor& volume);

}  // namespace sluice
