// The one door from tensors of any kind to the loops over floats.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "engine/base/error.h"

namespace sluice::kernels {

// The image itself where it is contiguous float32 on the CPU, else a copy that is. The loops are
// the CPU's: an image on another device is refused, never fetched behind the user's back.
inline at::Tensor float_image(const at::Tensor& image) {
  if (!image.device().is_cpu())
    throw Error(Exit::gpu, "this transform runs on the CPU and its input is on " +
                               image.device().str() + "; put it in front of to_device");
  return image.to(at::kFloat).contiguous();
}

}  // namespace sluice::kernels
