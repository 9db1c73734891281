// What a GPU does in ways of its own, on the host: dropout, gradients whose sums have one order,
// argmax in parts, optimizers that follow cuDNN's layouts.
#include <doctest/doctest.h>

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "kernels/image/labels.h"
#include "kernels/net/conv_step.h"
#include "kernels/net/dropout.h"
#include "kernels/net/pool_step.h"
#include "kernels/net/shape_step.h"
#include "kernels/optim/optim.h"

using namespace sluice;

TEST_CASE("dropout is one function of key, sample and position, in any layout and cut") {
  const auto rule = kernels::DropoutRule::of(0.3, 7, 5);
  for (const std::vector<std::int64_t>& size :
       {std::vector<std::int64_t>{3, 5, 6, 7, 4}, {2, 3, 5, 7}, {4, 10}, {1, 1, 9, 9, 60}}) {
    CAPTURE(size.size());
    at::manual_seed(1);
    const at::Tensor x = at::rand(size) + 1;
    const at::Tensor y = dropout(x, rule);
    const double dropped = y.eq(0).sum().item<double>() / static_cast<double>(x.numel());
    if (x.numel() > 1000) CHECK(dropped == doctest::Approx(0.3).epsilon(0.15));
    CHECK(at::equal(y, at::where(y.eq(0), 0.0, x * rule.kept)));
    if (size.size() > 3) {
      const auto last =
          size.size() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
      CHECK(at::equal(dropout(x.contiguous(last), rule), y));
    }
    const auto later = kernels::DropoutRule::of(0.3, 7, 5 + size[0] - 1);
    CHECK(at::equal(dropout(x.narrow(0, size[0] - 1, 1), later), y.narrow(0, size[0] - 1, 1)));
    CHECK(!at::equal(dropout(x, kernels::DropoutRule::of(0.3, 8, 5)), y));
  }
}

TEST_CASE("the gradient of a linear doubling is LibTorch's") {
  at::manual_seed(1);
  const at::Tensor flat = at::rand({2, 3, 8, 2}, at::kDouble);
  CHECK(at::allclose(doubling_backward(flat),
                     at::upsample_bilinear2d_backward(flat, {8, 2}, {2, 3, 4, 1}, false), 0,
                     1e-14));
  const at::Tensor solid = at::rand({1, 2, 6, 10, 4}, at::kDouble);
  CHECK(at::allclose(doubling_backward(solid),
                     at::upsample_trilinear3d_backward(solid, {6, 10, 4}, {1, 2, 3, 5, 2}, false),
                     0, 1e-14));
}

TEST_CASE("the gradient of a max pooling whose windows overlap is LibTorch's") {
  at::manual_seed(1);
  using Size = std::vector<std::int64_t>;
  for (const auto& [n, kernel, stride, padding] :
       {std::array<Size, 4>{Size{9, 8, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}},
        {Size{5, 6, 4}, {3, 2, 3}, {1, 2, 3}, {0, 1, 1}},
        {Size{1, 2, 3}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}}}) {
    const at::Tensor x = at::randint(0, 9, {2, 3, n[0], n[1], n[2]}).to(at::kDouble);
    const auto [y, indices] = at::max_pool3d_with_indices(x, kernel, stride, padding);
    const at::Tensor grad = at::rand_like(y);
    CHECK(at::allclose(max_pool_backward(grad, indices, x.sizes(), kernel, stride, padding),
                       at::max_pool3d_with_indices_backward(grad, x, kernel, stride, padding,
                                                            {1, 1, 1}, false, indices),
                       0, 1e-14));
  }
  const at::Tensor x = at::rand({2, 3, 11, 8}, at::kDouble);
  const auto [y, indices] = at::max_pool2d_with_indices(x, {3, 3}, {2, 2}, {1, 1});
  const at::Tensor grad = at::rand_like(y);
  CHECK(at::allclose(
      max_pool_backward(grad, indices, x.sizes(), {3, 3}, {2, 2}, {1, 1}),
      at::max_pool2d_with_indices_backward(grad, x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, indices),
      0, 1e-14));
}

TEST_CASE("argmax in parts is argmax") {
  at::manual_seed(1);
  const at::Tensor scores = at::rand({2, 5, 7, 4, 3});
  for (const std::int64_t voxels : {1, 24, 50, 1000})
    for (const std::int64_t dim : {0, 1, 4}) {
      CAPTURE(voxels);
      const at::Tensor part = kernels::argmax_in_parts(scores, dim, voxels);
      CHECK((part.scalar_type() == at::kByte));
      CHECK(at::equal(part, at::argmax(scores, dim, true).to(at::kByte)));
    }
}

TEST_CASE("the first NaN of a voxel's channels is its class, as torch.argmax has it") {
  at::manual_seed(2);
  at::Tensor scores = at::rand({4, 3000});
  scores.masked_fill_(at::rand({4, 3000}) < 0.2, std::nan(""));
  CHECK(at::equal(kernels::argmax_channels(scores), at::argmax(scores, 0, true).to(at::kByte)));
}

TEST_CASE("gradients as cuDNN makes them lie in the order of their weights") {
  // One channel in, or kernels of 1: a channels-last gradient has its own strides on such axes.
  const at::Tensor one_in = at::zeros({32, 1, 3, 3, 3}), point = at::zeros({8, 4, 1, 1, 1}),
                   full = at::zeros({8, 4, 3, 3, 3});
  CHECK(same_order(at::empty_strided({32, 1, 3, 3, 3}, {27, 1, 9, 3, 1}), one_in));
  CHECK(same_order(at::empty_strided({8, 4, 1, 1, 1}, {4, 1, 4, 4, 4}), point));
  CHECK(same_order(at::zeros_like(full), full));
  CHECK(!same_order(full.contiguous(at::MemoryFormat::ChannelsLast3d), full));
  CHECK(!same_order(at::zeros({1}).expand({8, 4, 3, 3, 3}), full));
  CHECK(!same_order(at::zeros({4}), at::zeros({1})));
}

TEST_CASE("channels are put together and taken apart as by cat and narrow, in the same layout") {
  at::manual_seed(1);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [a, b] : {std::pair{8, 4}, {3, 5}, {1, 1}, {4, 6}})
      for (const bool flat : {false, true}) {
        CAPTURE(a);
        CAPTURE(flat);
        const auto last = flat ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
        const auto image = [&, flat = flat](std::int64_t channels) {
          std::vector<std::int64_t> size{2, channels, 3, 4};
          if (!flat) size.push_back(5);
          return at::rand(size).to(type).contiguous(last);
        };
        const at::Tensor x = image(a), y = image(b), both = concatenated({x, y});
        CHECK(at::equal(both, at::cat({x, y}, 1)));
        CHECK(both.is_contiguous(last));
        const at::Tensor part = channels_of(both, a, b);
        CHECK(at::equal(part, y));
        CHECK(part.is_contiguous(last));
        CHECK(at::equal(channels_of(both, 0, a), x));
      }
}

TEST_CASE("a weight of one channel gets the strides of the layout that it is in") {
  const at::Tensor w = at::rand({8, 1, 3, 3, 3}),
                   laid = w.contiguous(at::MemoryFormat::ChannelsLast3d);
  CHECK((laid.suggest_memory_format() == at::MemoryFormat::Contiguous));  // LibTorch's reading
  const at::Tensor strict = as_laid_out(laid, at::MemoryFormat::ChannelsLast3d);
  CHECK((strict.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d));
  CHECK(at::equal(strict, w));
  CHECK(strict.is_same(as_laid_out(strict, at::MemoryFormat::Contiguous)));
}
