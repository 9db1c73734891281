// Colour jitter as torchvision's functional does it, for channels red, green, blue (or one gray).
//
// Steps one after the other are done together, block by block; only a contrast, which needs the
// mean of what it is given, begins a pass of its own.
//
// Invariant: float images are 0..1 and stay so; uint8 images are 0..255 and are rounded after every
// step, as torchvision's are. An image of one channel has no saturation and no hue: it stays. Steps
// done together give what they give one by one, to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace sluice::kernels {

enum class Jitter : std::uint8_t { brightness, contrast, saturation, hue };

struct JitterStep {
  Jitter what;
  double by;  // by 1 (hue: by 0 turns) nothing changes
};

// image [1 or 3, ...]. Where `into` is defined the result is written there (into.h): it may be the
// image itself.
at::Tensor jitter(const at::Tensor& image, const std::vector<JitterStep>& steps,
                  const at::Tensor& into = {});
inline at::Tensor jitter(const at::Tensor& image, Jitter what, double by) {
  return jitter(image, {{what, by}});
}

}  // namespace sluice::kernels
