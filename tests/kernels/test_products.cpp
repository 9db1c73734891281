// Products of matrices that LibTorch has no call for.
#include <doctest/doctest.h>

#include <ATen/ATen.h>

#include "engine/base/cpu.h"
#include "kernels/net/products.h"

using namespace sluice;

TEST_CASE("a product becomes a sum, or is added to one, in float32") {
  at::manual_seed(7);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    CAPTURE(type);
    // Columns of a wider matrix, and rows whose numbers do not lie side by side.
    const at::Tensor a = at::randn({33, 40}).to(type).narrow(1, 3, 21),
                     b = at::randn({18, 33}).to(type).t();
    const at::Tensor whole = at::mm(a.to(at::kDouble).t(), b.to(at::kDouble));
    const double rounding =
        type == at::kBFloat16 && cpu_level() < CpuLevel::avx512_bf16 ? 1 / 128. : 1e-6;
    at::Tensor sum;
    for (const int times : {1, 2, 3}) {
      add_product(a, b, sum);
      CHECK(sum.dtype() == at::kFloat);
      CHECK(sum.is_contiguous());
      const at::Tensor wrong = sum.to(at::kDouble) - times * whole;
      CHECK((wrong.norm() / (times * whole).norm()).item<double>() < rounding);
    }
  }
}
