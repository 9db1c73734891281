// Which of a machine's GPUs a process takes, and what kernels take there.
#include <ATen/ATen.h>

#include "kernels/image/bilateral.h"
#include "kernels/image/foreground.h"
#include "tests/nodes/on_device.h"

using namespace sluice;

TEST_CASE("processes of one machine take its GPUs in turn, and share them where they are fewer") {
  const auto indices = [](int local_rank, int count) {
    std::vector<int> all;
    for (const at::Device& d : gpus_from(local_rank, count)) {
      CHECK(d.is_cuda());
      all.push_back(d.index());
    }
    return all;
  };
  CHECK(indices(0, 3) == std::vector<int>{0, 1, 2});
  CHECK(indices(2, 3) == std::vector<int>{2, 0, 1});
  CHECK(indices(5, 3) == std::vector<int>{2, 0, 1});
  CHECK(indices(1, 1) == std::vector<int>{0});
  CHECK(indices(1, 0).empty());
}

// gpu_check.py runs these two on a GPU.
TEST_CASE("a device's kernels take labels of any type, as the host's do") {
  at::manual_seed(3);
  const at::Tensor label = (at::rand({1, 6, 7, 8}) > 0.7).to(at::kByte) * 3;
  const at::Tensor image = at::rand({1, 6, 7, 8}, at::kDouble);
  const at::Tensor foreground = foreground_bits(label);
  const at::Tensor background = background_bits(label, foreground, &image, 0.5);
  for (const auto type : {at::kByte, at::kShort, at::kInt, at::kLong, at::kFloat, at::kDouble}) {
    CAPTURE(at::toString(type));
    const at::Tensor y = on_device(label.to(type)), x = on_device(image);
    CHECK(at::equal(foreground_bits(y), foreground));
    CHECK(at::equal(background_bits(y, foreground, &x, 0.5), background));
  }
}

TEST_CASE("a device's kernels leave a bilateral filter's gradients where its sigmas are") {
  at::manual_seed(4);
  const at::Tensor image = at::rand({1, 1, 6, 7, 8});
  std::vector<at::Tensor> grads;
  for (const at::Device there : {at::Device(at::kCPU), test_device()}) {
    const auto options = at::dtype(at::kFloat).device(there);
    const at::Tensor space = at::full({3}, 1.5, options).requires_grad_(),
                     color = at::full({}, 0.25, options).requires_grad_(), x = image.to(there);
    bilateral(x, x, space, color, Neighbours::inside).square().sum().backward();
    for (const at::Tensor& sigma : {space, color}) {
      CHECK(sigma.grad().device() == there);
      grads.push_back(sigma.grad().cpu());
      CHECK(grads.back().abs().min().item<double>() > 1e-3);
    }
  }
  for (const std::size_t i : {0, 1}) CHECK(at::allclose(grads[i], grads[i + 2], 1e-3, 1e-5));
}
