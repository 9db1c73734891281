// The focal loss in one pass beside LibTorch's operations in float64.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/loss/terms.h"

using namespace sluice;

TEST_CASE("the focal loss in one pass has the values and gradients of LibTorch's operations") {
  const at::Tensor extremes =
      at::tensor({-200.f, -90.f, -20.f, -1e-4f, 0.f, 1e-4f, 20.f, 90.f, 200.f});
  at::manual_seed(7);
  const at::Tensor logits =
      at::cat({extremes, extremes, extremes, at::randn({130}) * 5}).view({1, 1, -1});
  const at::Tensor truth =
      at::cat({at::zeros({9}), at::ones({9}), at::full({9}, .3), at::rand({130})}).view({1, 1, -1});
  for (const double gamma : {0., .5, 2., 3.5})
    for (const auto& alpha : {std::optional<double>(), std::optional(.25)}) {
      CAPTURE(gamma);
      const FocalTerm term{gamma, alpha};
      const auto run = [&](at::ScalarType type) {
        const at::Tensor x = logits.to(type, false, true).requires_grad_();
        const at::Tensor loss = sigmoid_focal(x, truth.to(type), term);
        const auto slope = torch::autograd::grad({loss.sum()}, {x})[0];
        return std::pair(loss.detach().to(at::kDouble), slope.to(at::kDouble));
      };
      const auto [loss, slope] = run(at::kFloat);
      const auto [wanted, gradient] = run(at::kDouble);
      CHECK(at::allclose(loss, wanted, 1e-5, 1e-7));
      CHECK(at::allclose(slope, gradient, 1e-5, 1e-6));
    }
}
