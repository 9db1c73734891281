// Colour jitter as torchvision's functional does it, for channels red, green, blue (or one gray).
//
// Invariant: float images are 0..1 and stay so; uint8 images are 0..255 and are rounded after every
// step, as torchvision's are. An image of one channel has no saturation and no hue: it stays.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace sluice::kernels {

enum class Jitter : std::uint8_t { brightness, contrast, saturation, hue };

// image [1 or 3, ...]. By 1 (hue: by 0 turns) nothing changes.
at::Tensor jitter(const at::Tensor& image, Jitter what, double by);

}  // namespace sluice::kernels
