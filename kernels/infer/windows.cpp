#include "kernels/infer/windows.h"

#include <ATen/ops/tensor.h>

namespace sluice {

BlendWindow blend_window(const std::vector<std::int64_t>& size, const std::string& mode,
                         const std::vector<double>& sigma_scale, bool half) {
  const WindowWeights weights = window_weights(size, mode, sigma_scale, half);
  BlendWindow w{size, {}, weights.least, half};
  for (const std::vector<float>& axis : weights.axes) w.weights.push_back(at::tensor(axis));
  return w;
}

}  // namespace sluice
