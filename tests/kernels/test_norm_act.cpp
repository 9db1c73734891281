// Fused norm, activation and residual against the same formulas in LibTorch's autograd.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/net/norm_act.h"
#include "tests/nearness.h"

using namespace sluice;

namespace {

at::Tensor waves(at::IntArrayRef shape, double first) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return at::sin(k * k * 0.37).reshape(shape);
}
at::Tensor last(const at::Tensor& t, at::ScalarType type) {
  return t.to(type).contiguous(channels_last_of(t));
}
struct Answer {
  at::Tensor y, dx, dgamma, dbeta, dslope;
};

// Of instance, group (of 2) and batch norm: channels with common statistics, 0 for batch norm.
constexpr int batch_norm = 0;

// In float64, by autograd.
Answer expected(const at::Tensor& x_, const at::Tensor& r, const at::Tensor& g, int together) {
  at::Tensor x = x_.to(at::kDouble).contiguous().clone().requires_grad_();
  const std::int64_t C = x.size(1);
  at::Tensor gamma = (waves({C}, 1) + 1.5).requires_grad_(), beta = waves({C}, 2).requires_grad_();
  at::Tensor slope = at::full({1}, 0.25, at::kDouble).requires_grad_();
  const at::Tensor u = together ? at::group_norm(x, C / together, gamma, beta, 1e-5, false)
                                : at::batch_norm(x, gamma, beta, {}, {}, true, 0.1, 1e-5, false);
  const at::Tensor y = at::where(u > 0, u, u * slope) + r.to(at::kDouble);
  (y * g.to(at::kDouble)).sum().backward();
  return {y.detach(), x.grad(), gamma.grad(), beta.grad(), slope.grad()};
}

Answer fused(const at::Tensor& x, const at::Tensor& r, const at::Tensor& g, int together) {
  NormStats s = norm_stats(x, together != batch_norm);
  if (together) s = in_common(s, together);
  const auto type = s.mean.scalar_type();
  const std::int64_t C = x.size(1);
  NormAct p{s.mean, (s.variance + 1e-5).rsqrt(), (waves({C}, 1) + 1.5).to(type),
            waves({C}, 2).to(type), at::full({1}, 0.25, type)};
  if (together) p.together = together;
  const NormActGrad d = norm_act_backward(g, x, p);
  return {norm_act(x, p, r), d.input, d.gamma, d.beta, d.slope};
}

}  // namespace

TEST_CASE("fused norm and activation equal LibTorch's forward and backward") {
  for (const std::vector<std::int64_t>& size : std::vector<std::vector<std::int64_t>>{
           {2, 16, 5, 6, 7}, {3, 3, 9, 8, 11}, {2, 5, 13, 17}, {1, 40, 33, 35}, {2, 1, 4, 4, 4}})
    for (const int together : {1, 2, 5, batch_norm})
      for (const auto& [type, limit] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 6e-3}}) {
        CAPTURE(c10::str(size));
        if (together && size[1] % together != 0) continue;
        CAPTURE(together);
        CAPTURE(c10::str(type));
        const at::Tensor x = last(waves(size, 3) * 2 + 5, type), r = last(waves(size, 4), type);
        const at::Tensor g = last(waves(size, 5), type);
        REQUIRE(norm_act_is_fused(x));
        const Answer a = fused(x, r, g, together), b = expected(x, r, g, together);
        CHECK(relative(a.y, b.y) < limit);
        CHECK(relative(a.dx, b.dx) < limit);
        CHECK(relative(a.dgamma, b.dgamma) < limit);
        CHECK(relative(a.dbeta, b.dbeta) < limit);
        CHECK(relative(a.dslope, b.dslope) < limit);
      }
}

TEST_CASE("the composed form takes every other layout and type, with the same answer") {
  for (const std::vector<std::int64_t>& size :
       std::vector<std::vector<std::int64_t>>{{2, 4, 5, 6, 7}, {3, 8}}) {
    const at::Tensor x = waves(size, 3), r = waves(size, 4), g = waves(size, 5);
    REQUIRE(!norm_act_is_fused(x));
    for (const int together : {1, 2, 4, batch_norm}) {
      if (size.size() == 2 && (together == 1 || together == 2)) continue;  // of too few numbers
      CAPTURE(together);
      CAPTURE(c10::str(size));
      const Answer a = fused(x, r, g, together), b = expected(x, r, g, together);
      CHECK(relative(a.y, b.y) < 1e-12);
      CHECK(relative(a.dx, b.dx) < 1e-12);
      CHECK(relative(a.dgamma, b.dgamma) < 1e-12);
      CHECK(relative(a.dbeta, b.dbeta) < 1e-12);
      CHECK(relative(a.dslope, b.dslope) < 1e-12);
    }
  }
}

TEST_CASE("infinities and NaN go through an activation as through LibTorch's") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> some{-infinity, infinity, std::nanf(""), -3, 0, 2, -0.5F, 7};
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const int quarters : {0, 1}) {
      CAPTURE(c10::str(type));
      CAPTURE(quarters);
      const at::Tensor x = last(at::tensor(some).view({1, 8, 1, 1}), type);
      NormAct p;
      p.mean = at::zeros({1, 8}, type == at::kDouble ? at::kDouble : at::kFloat);
      p.rstd = p.mean + 1;
      p.slope = at::full({1}, 0.25 * quarters, p.mean.options());
      const at::Tensor wanted = quarters == 0 ? at::relu(x) : at::leaky_relu(x, 0.25);
      CHECK(at::allclose(norm_act(x, p, {}), wanted, 0, 0, /*equal_nan=*/true));
    }
}

TEST_CASE("a mean far from zero costs no precision in the variance") {
  const at::Tensor x = last(waves({1, 16, 20, 20, 20}, 1) * 0.01 + 100, at::kFloat);
  const NormStats s = norm_stats(x, true);
  const auto [variance, mean] = at::var_mean(x.to(at::kDouble), {2, 3, 4}, c10::Scalar(0), false);
  CHECK(relative(s.mean, mean) < 1e-6);
  CHECK(relative(s.variance, variance) < 1e-4);
}

TEST_CASE("norm and activation give equal bits for any number of threads") {
  const at::Tensor x = last(waves({2, 16, 40, 30, 20}, 3), at::kBFloat16);
  std::vector<Answer> all;
  for (int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    all.push_back(fused(x, x, x, 1));
    CHECK(all.back().y.equal(all[0].y));
    CHECK(all.back().dx.equal(all[0].dx));
    CHECK(all.back().dslope.equal(all[0].dslope));
  }
  at::set_num_threads(1);
}

TEST_CASE("channel sums equal LibTorch's in both layouts") {
  const at::Tensor x = waves({2, 3, 7, 6, 5}, 3);
  const at::Tensor sums = x.sum({0, 2, 3, 4});
  CHECK(relative(channel_sums(x), sums) < 1e-12);
  CHECK(relative(channel_sums(last(x, at::kFloat)), sums) < 1e-5);
}
