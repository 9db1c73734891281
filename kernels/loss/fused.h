// Losses of each value and their slopes in one pass, which LibTorch's operations make in many
// (focal nine forward and more back).
//
// Logits and truths (0 to 1) are float32 on the host, of one shape. The gradient to the logits is
// on LibTorch's tape; the truth gets none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace sluice {

// The focal loss of each value, like `logits`; alpha: null for no weights (Lin et al. 2017).
at::Tensor focal_fused(const at::Tensor& logits, const at::Tensor& truth, double gamma,
                       std::optional<double> alpha);

// The sum of the binary cross entropies of the logits' sigmoids, a number.
at::Tensor bce_fused(const at::Tensor& logits, const at::Tensor& truth);

enum class PairTerm : std::uint8_t { l1, mse, huber, smooth_l1, bce };

// The sum of a term of each prediction x and truth y, a number; with d = x - y:
//
//   l1 |d|   mse d^2   huber d^2 / 2, from |d| = bend on bend |d| - bend^2 / 2
//   smooth_l1 huber / bend   bce -y log x - (1 - y) log(1 - x), no logarithm below -100; NaN of an
//   x that is no probability
at::Tensor pair_fused(PairTerm term, const at::Tensor& pred, const at::Tensor& truth, double bend);

}  // namespace sluice
