// Losses of each value and their slopes in one pass, which LibTorch's operations make in many
// (focal nine forward and more back).
//
// Logits and truths (0 to 1) are float32 on the host, of one shape. The gradient to the logits is
// on LibTorch's tape; the truth gets none.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace sluice {

// The focal loss of each value, like `logits`; alpha: null for no weights (Lin et al. 2017).
at::Tensor focal_fused(const at::Tensor& logits, const at::Tensor& truth, double gamma,
                       std::optional<double> alpha);

// The sum of the binary cross entropies of the logits' sigmoids, a number.
at::Tensor bce_fused(const at::Tensor& logits, const at::Tensor& truth);

}  // namespace sluice
