// Where a kernel writes: into memory that its caller gives, such as a slice of a batch, or into
// new memory. The result is the same to the bit.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <stdexcept>

namespace sluice {

// `into` where it is given: then it is contiguous and of just this shape and type.
inline at::Tensor room(const at::Tensor& into, at::IntArrayRef sizes,
                       const at::TensorOptions& options) {
  if (!into.defined()) return at::empty(sizes, options);
  if (into.sizes() != sizes || into.scalar_type() != c10::typeMetaToScalarType(options.dtype()) ||
      !into.is_contiguous())
    throw std::logic_error("the memory that a kernel is to write to does not fit its result");
  return into;
}

}  // namespace sluice
