// Convolutions whose channels are filled up to eight, as a GPU's are in 16 bits.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/net/conv_step.h"

using namespace sluice;

TEST_CASE("a convolution with filled-up channels has the values and gradients of one without") {
  for (const bool transposed : {false, true})
    for (const std::int64_t in : {1, 3, 9})
      for (const std::int64_t out : {2, 8, 10})
        for (const std::size_t axes : {1, 2, 3}) {
          CAPTURE(transposed);
          CAPTURE(in);
          CAPTURE(out);
          CAPTURE(axes);
          const std::vector<std::int64_t> three(axes, 3), two(axes, 2), one(axes, 1);
          ConvSpec spec;
          spec.in = in, spec.out = out, spec.kernel = three, spec.stride = two, spec.padding = one;
          spec.output_padding = transposed ? one : std::vector<std::int64_t>(axes, 0);
          spec.transposed = transposed;
          std::vector<std::int64_t> size{2, in},
              weight_size{transposed ? in : out, transposed ? out : in};
          for (std::size_t a = 0; a < axes; ++a) {
            size.push_back(6);
            weight_size.push_back(3);
          }
          const at::Tensor x = at::randn(size, at::kDouble), bias = at::randn({out}, at::kDouble);
          const at::Tensor weight = at::randn(weight_size, at::kDouble), wide = filled_up(weight);
          CHECK(wide.size(0) == std::max<std::int64_t>(8, weight.size(0)));
          CHECK(wide.size(1) == std::max<std::int64_t>(8, weight.size(1)));
          const at::Tensor y = torch_convolution(x, weight, bias, spec);
          CHECK(at::allclose(filled_convolution(x, wide, bias, spec), y, 1e-12, 1e-12));
          CHECK(at::allclose(filled_convolution(x, weight, bias, spec), y, 1e-12, 1e-12));
          const at::Tensor grad = at::randn(y.sizes(), at::kDouble);
          const auto plain = filled_convolution_backward(grad, x, weight, spec, true);
          const auto filled = filled_convolution_backward(grad, x, wide, spec, true);
          CHECK(at::allclose(plain.first, filled.first, 1e-12, 1e-12));
          CHECK(at::allclose(plain.second, filled.second, 1e-12, 1e-12));
          CHECK(filled.second.sizes() == weight.sizes());
          CHECK_FALSE(filled_convolution_backward(grad, x, wide, spec, false).first.defined());
        }
}

TEST_CASE("filled-up channels stay channels-last, so that nothing is laid out anew") {
  ConvSpec spec;
  spec.in = spec.out = 3, spec.kernel = {3, 3, 3}, spec.stride = {1, 1, 1},
  spec.padding = {1, 1, 1};
  spec.output_padding = {0, 0, 0};
  const auto last = at::MemoryFormat::ChannelsLast3d;
  const at::Tensor x = at::randn({2, 3, 6, 6, 6}).contiguous(last);
  const at::Tensor wide = filled_up(at::randn({3, 3, 3, 3, 3}));
  CHECK(filled_convolution(x, wide, std::nullopt, spec).stride(1) == 1);
}
