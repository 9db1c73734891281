// Losses in one pass beside LibTorch's operations in float64.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/loss/terms.h"

using namespace sluice;

namespace {

// Logits and truths [1, 1, n], the extremes among them.
std::pair<at::Tensor, at::Tensor> inputs() {
  const at::Tensor extremes =
      at::tensor({-200.f, -90.f, -20.f, -1e-4f, 0.f, 1e-4f, 20.f, 90.f, 200.f});
  at::manual_seed(7);
  return {at::cat({extremes, extremes, extremes, at::randn({130}) * 5}).view({1, 1, -1}),
          at::cat({at::zeros({9}), at::ones({9}), at::full({9}, .3), at::rand({130})})
              .view({1, 1, -1})};
}

}  // namespace

TEST_CASE("binary cross entropy in one pass has the value and gradient of LibTorch's") {
  const auto [few, shares] = inputs();
  const at::Tensor logits = few.repeat({1, 1, 300}), truth = shares.repeat({1, 1, 300});
  for (const auto reduction : {at::Reduction::Mean, at::Reduction::Sum}) {
    const auto run = [&](at::ScalarType type) {
      const at::Tensor x = logits.to(type, false, true).requires_grad_();
      const at::Tensor loss = bce_with_logits(x, truth.to(type), {}, {}, reduction);
      const auto slope = torch::autograd::grad({3 * loss}, {x})[0];
      return std::pair(loss.detach().to(at::kDouble), slope.to(at::kDouble));
    };
    const auto [loss, slope] = run(at::kFloat);
    const auto [wanted, gradient] = run(at::kDouble);
    CHECK(at::allclose(loss, wanted, 1e-6, 0));
    CHECK(at::allclose(slope, gradient, 1e-5, 1e-6));
  }
}

TEST_CASE("a loss in one pass has its gradient again where its graph is retained") {
  const auto [logits, truth] = inputs();
  const at::Tensor x = logits.clone().requires_grad_(), loss = bce_with_logits(x, truth);
  const auto slope = [&](bool again) {
    return torch::autograd::grad({5 * loss}, {x}, {}, again)[0];
  };
  const at::Tensor first = slope(true);
  CHECK(at::equal(slope(true), first));
  CHECK(at::equal(slope(false), first));
}

TEST_CASE("the focal loss in one pass has the values and gradients of LibTorch's operations") {
  const auto [logits, truth] = inputs();
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
