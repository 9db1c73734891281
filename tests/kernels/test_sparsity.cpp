// Which weights a pattern leaves out.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/net/sparsity.h"

using namespace sluice;

namespace {

ConvSpec spec(std::int64_t in, std::int64_t out, bool transposed = false, std::int64_t groups = 1) {
  return {transposed, in, out, {3, 3}, {1, 1}, {1, 1}, {0, 0}, groups};
}

constexpr auto vector = Sparsity::Pattern::vector, two_of_four = Sparsity::Pattern::two_of_four;

}  // namespace

TEST_CASE("vectors are kept or left out as one, the heaviest are kept") {
  // The second pair of inputs is heavier than the first at the first tap alone.
  at::Tensor w = at::ones({32, 8, 3, 3});
  w.narrow(1, 0, 2).fill_(2);
  w.narrow(0, 16, 16).narrow(1, 2, 2).select(2, 0).select(2, 0).fill_(3);
  const at::Tensor mask = sparsity_mask(w, spec(8, 32), {vector, 19.0 / 72});
  CHECK((mask.scalar_type() == at::kByte));
  CHECK(mask.narrow(1, 0, 2).all().item<bool>());
  const at::Tensor one = mask.narrow(0, 16, 16).narrow(1, 2, 2);
  CHECK(one.select(2, 0).select(2, 0).all().item<bool>());
  CHECK(mask.sum().item<int>() == 2 * 9 * 32 + 32);
  // A transposed one has its outputs in the second axis.
  const at::Tensor turned =
      sparsity_mask(w.transpose(0, 1).contiguous(), spec(8, 32, true), {vector, 19.0 / 72});
  CHECK(turned.transpose(0, 1).equal(mask));
}

TEST_CASE("an odd number of channels has a last block that is smaller") {
  const at::Tensor w = at::arange(40 * 9 * 9).view({40, 9, 3, 3}).to(at::kFloat);
  const at::Tensor mask = sparsity_mask(w, spec(9, 40), {vector, 0.5});
  CHECK(mask.sizes() == w.sizes());
  for (int o : {0, 16, 32})
    for (int i : {0, 2, 4, 6, 8}) {
      const at::Tensor block = mask.slice(0, o, o + 16).slice(1, i, i + 2).flatten(2);
      CHECK(block.amin({0, 1}).equal(block.amax({0, 1})));
    }
}

TEST_CASE("2:4 keeps the two heaviest of four inputs at each output and tap") {
  const at::Tensor w = at::sin(at::arange(16 * 12 * 9).view({16, 12, 3, 3}).to(at::kFloat) * 1.7);
  const at::Tensor mask = sparsity_mask(w, spec(12, 16), {two_of_four});
  const at::Tensor four = mask.view({16, 3, 4, 9}), heavy = w.abs().view({16, 3, 4, 9});
  CHECK(four.sum({2}).eq(2).all().item<bool>());
  const at::Tensor kept = heavy.masked_fill(four.eq(0), 1e9).amin({2});
  const at::Tensor left = heavy.masked_fill(four.eq(1), -1).amax({2});
  CHECK(kept.ge(left).all().item<bool>());
}

TEST_CASE("what a pattern does not fit") {
  CHECK(fits(spec(8, 16), {vector}));
  CHECK_FALSE(fits(spec(7, 16), {vector}));
  CHECK_FALSE(fits(spec(8, 15), {vector}));
  CHECK_FALSE(fits(spec(16, 16, false, 16), {vector}));
  CHECK(fits(spec(4, 3), {two_of_four}));
  CHECK_FALSE(fits(spec(6, 16), {two_of_four}));
  CHECK_FALSE(fits(spec(8, 16), {}));
}
