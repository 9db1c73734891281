// How near two tensors are.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

namespace sluice {

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// ‖a − b‖ / ‖b‖; 0 where both are zero.
inline double relative(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor difference = a.to(at::kDouble) - b.to(at::kDouble);
  return (difference.norm() / (b.to(at::kDouble).norm() + 1e-30)).item<double>();
}

}  // namespace sluice
