// A window's weights (window_weights.h) as Blend takes them.
#pragma once

#include "kernels/infer/blend.h"
#include "kernels/infer/window_weights.h"

namespace sluice {

// On the host. See window_weights().
BlendWindow blend_window(const std::vector<std::int64_t>& size, const std::string& mode,
                         const std::vector<double>& sigma_scale, bool half = false);

}  // namespace sluice
