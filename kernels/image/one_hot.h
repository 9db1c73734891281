// A label map as one channel a class.
//
// Invariant: one pass that writes nothing but the result: on the CPU with team.h's threads, on a
// CUDA device for uint8 by libsluice_cuda.so. A value that is no class sets no channel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice {

// label [N, 1, ...] of any dtype -> [N, classes, ...] of `type`, 1 where the value is the channel's
// number.
at::Tensor one_hot(const at::Tensor& label, std::int64_t classes, at::ScalarType type);

}  // namespace sluice
