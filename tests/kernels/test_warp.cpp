// Displacement fields: ours against LibTorch's grid sampler, gradients against differences.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <doctest/doctest.h>

#include "kernels/image/warp.h"
#include "tests/kernels/gradient_error.h"

namespace sluice {
namespace {

using kernels::Outside;

std::vector<std::int64_t> with(std::int64_t channels, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> shape{2, channels};
  shape.insert(shape.end(), extents.begin(), extents.end());
  return shape;
}

}  // namespace

TEST_CASE("an image is warped as by LibTorch's grid sampler, with its gradients") {
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{7, 6}, std::vector<std::int64_t>{5, 6, 7},
        std::vector<std::int64_t>{5, 1, 4}})
    for (const Outside outside : {Outside::zeros, Outside::border})
      for (const double size : {0.4, 3.7}) {
        CAPTURE(extents.size());
        CAPTURE(size);
        const auto axes = static_cast<std::int64_t>(extents.size());
        const at::Tensor image = wave(with(3, extents), 0.7).requires_grad_(),
                         ddf = (wave(with(axes, extents), 1.9) * size).requires_grad_(),
                         grad = wave(with(3, extents), 2.3);
        const at::Tensor ours = warp(image, ddf, outside),
                         theirs = torch_warp(image, ddf, false, outside);
        CHECK(apart(ours, theirs) < 1e-12);
        const auto g = torch::autograd::grad({ours}, {image, ddf}, {grad}),
                   want = torch::autograd::grad({theirs}, {image, ddf}, {grad});
        CHECK(apart(g[0], want[0]) < 1e-11);
        CHECK(apart(g[1], want[1]) < 1e-11);
      }
}

TEST_CASE("a warp by whole voxels copies them, on one axis too") {
  const at::Tensor image = at::arange(5, at::kFloat).view({1, 1, 5}),
                   by = at::full({1, 1, 5}, 2.0F);
  CHECK(at::equal(warp(image, by), at::tensor({2.F, 3.F, 4.F, 0.F, 0.F}).view({1, 1, 5})));
  CHECK(at::equal(warp(image, by, Outside::border),
                  at::tensor({2.F, 3.F, 4.F, 4.F, 4.F}).view({1, 1, 5})));
}

TEST_CASE("a displacement that is no number gives NaN, and no voxel of somewhere else") {
  for (const Outside outside : {Outside::zeros, Outside::border})
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      at::Tensor by = at::zeros({1, 2, 3, 3});
      by[0][1][1][1] = bad;
      const at::Tensor out = warp(at::ones({1, 1, 3, 3}), by, outside);
      CHECK(at::isnan(out).sum().item<int>() == 1);
      CHECK(at::isnan(out[0][0][1][1]).item<bool>());
    }
}

TEST_CASE("one thread and three warp to the same bits") {
  const int before = at::get_num_threads();
  const auto all = [] {
    const at::Tensor image = wave({1, 2, 9, 8, 7}, 0.7).to(at::kFloat).requires_grad_(),
                     ddf = (wave({1, 3, 9, 8, 7}, 2.9) * 4).to(at::kFloat).requires_grad_();
    at::Tensor out = warp(image, ddf);
    auto grads = torch::autograd::grad({out.square().sum()}, {image, ddf});
    return std::vector<at::Tensor>{out.detach(), grads[0], grads[1]};
  };
  at::set_num_threads(1);
  const auto one = all();
  at::set_num_threads(3);
  const auto three = all();
  at::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(at::equal(one[i], three[i]));
}

TEST_CASE("a constant velocity moves by itself, and a small field is integrated to its flow") {
  at::Tensor still = at::full({1, 2, 6, 6}, 0.25, at::kDouble);
  CHECK(apart(dvf2ddf(still, 7, Outside::border), still) < 1e-12);
  // dx/dt = 0.1 (x - 5): x(1) = 5 + (x - 5) exp(0.1)
  const at::Tensor x = at::arange(11, at::kDouble) - 5;
  const at::Tensor flow = (x * 0.1).view({1, 1, 11});
  const at::Tensor want = x * (std::exp(0.1) - 1);
  CHECK(apart(dvf2ddf(flow, 12, Outside::border).view({11}).slice(0, 2, 9), want.slice(0, 2, 9)) <
        1e-4);
}

}  // namespace sluice
