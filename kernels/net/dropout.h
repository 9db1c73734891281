// Dropout of single elements (Srivastava et al. 2014), whose draws do not depend on the device, on
// the batch's layout, or on how a batch is cut.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/net/dropout_value.h"

namespace sluice {

// x [N, C, ...] times its factors, and so the gradient of that from the gradient after it.
at::Tensor dropout(const at::Tensor& x, const kernels::DropoutRule& rule);

}  // namespace sluice
