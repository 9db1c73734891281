// The resampler against golden values, central differences and its own adjoint.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "kernels/image/grid_sampling.h"
#include "tests/kernels/gradient_error.h"

using namespace sluice;
using kernels::Bound;
using kernels::GridRule;

namespace {

const Bound bounds[] = {Bound::replicate, Bound::dct1, Bound::dct2, Bound::dst1,
                        Bound::dst2,      Bound::dft,  Bound::zero};

GridRule rule(Bound bound, int first, int second = -1, int third = -1) {
  GridRule r;
  r.order[0] = first;
  r.order[1] = second < 0 ? first : second;
  r.order[2] = third < 0 ? r.order[1] : third;
  for (Bound& b : r.bound) b = bound;
  return r;
}

at::Tensor points(std::vector<double> values) { return row(std::move(values)).view({1, -1, 1}); }

}  // namespace

TEST_CASE("grid_pull, grid_push, grid_count and grid_grad give the golden values") {
  const at::Tensor image = row({1, 2, 4, 8}), grid = points({-1.25, .5, 3.75});
  const double first[7][3] = {{1, 1.5, 8},      {2.5, 1.5, 5},  {1.25, 1.5, 8}, {-.25, 1.5, 2},
                              {-1.25, 1.5, -4}, {7, 1.5, 2.75}, {0, 1.5, 2}};
  const double third[7][3] = {{1, 1.54167, 7.98958},       {2.57552, 1.5625, 5.11979},
                              {1.32292, 1.54167, 7.70833}, {-.25, 1.52083, 1.96875},
                              {-1.18229, 1.5, -2.64583},   {6.23177, 1.6875, 3.28385},
                              {.07031, 1.52083, 2.53125}};
  for (int b = 0; b < 7; ++b) {
    CAPTURE(b);
    const auto want = [](const double* v) { return row({v[0], v[1], v[2]}); };
    CHECK(apart(grid_pull(image, grid, rule(bounds[b], 1)), want(first[b])) < 1e-9);
    CHECK(apart(grid_pull(image, grid, rule(bounds[b], 3)), want(third[b])) < 1e-5);
  }
  const std::pair<int, at::Tensor> orders[] = {{0, row({1, 2, 8})},
                                               {2, row({1.28125, 1.5, 7.875})},
                                               {4, row({1.364583, 1.583333, 7.542643})},
                                               {5, row({1.406258, 1.62526, 7.386914})},
                                               {6, row({1.448164, 1.668056, 7.241597})},
                                               {7, row({1.490529, 1.711706, 7.106361})}};
  for (const auto& [order, want] : orders) {
    CAPTURE(order);
    CHECK(apart(grid_pull(image, grid, rule(Bound::dct2, order)), want) < 1e-6);
  }
  CHECK(apart(grid_pull(image, points({-.5, -.25, .5, 1.5, 2.5}), rule(Bound::zero, 0)),
              row({0, 1, 2, 4, 8})) == 0);
  CHECK(apart(grid_push(row({1, 2, 3}), grid, {4}, rule(Bound::dct2, 1)), row({1.75, 1.25, 0, 3})) <
        1e-9);
  CHECK(apart(grid_count(grid, {4}, rule(Bound::dst2, 3)),
              row({-.083333, .164062, -.049479, -.296875})) < 1e-6);
  CHECK(apart(grid_grad(image, grid, rule(Bound::dct2, 1)), row({-1, 1, 0})) < 1e-9);
  CHECK(apart(grid_grad(image, grid, rule(Bound::dct2, 3)), row({-.75, 1, -1})) < 1e-9);
  const at::Tensor cube = at::arange(8, at::kDouble).square().view({1, 1, 2, 2, 2});
  CHECK(apart(grid_pull(cube, at::tensor({.3, .6, 1.2}, at::kDouble).view({1, 1, 1, 1, 3}),
                        rule(Bound::dct2, 1, 2, 3)),
              row({15.315067})) < 1e-6);
}

TEST_CASE("grid_pull and grid_grad give the golden gradients") {
  const at::Tensor weight = row({1, -1, 2});
  for (const bool slopes : {false, true}) {
    const at::Tensor image = row({1, 2, 4, 8}).requires_grad_(),
                     grid = points({-1.25, .5, 3.75}).requires_grad_();
    const at::Tensor out = (slopes ? grid_grad : grid_pull)(image, grid, rule(Bound::dct2, 3));
    const auto grads = torch::autograd::grad({out}, {image, grid}, {weight.view(out.sizes())});
    CHECK(apart(grads[0], slopes ? row({1.4375, -1.28125, .34375, -.5})
                                 : row({.182292, -.164062, .127604, 1.854167})) < 1e-6);
    CHECK(apart(grads[1], slopes ? row({1, -1, -8}) : row({-.75, -1, -2})) < 1e-6);
  }
}

TEST_CASE("the resampler's gradients are central differences, and push is pull's adjoint") {
  const std::vector<std::vector<std::int64_t>> shapes{{5}, {4, 3}, {3, 4, 2}};
  for (const auto& shape : shapes)
    for (const Bound bound : bounds)
      for (int order = 0; order <= 8; ++order) {
        const int axes = static_cast<int>(shape.size());
        GridRule r = order < 8 ? rule(bound, order) : rule(bound, 1, 3, 2);  // 8: orders differ
        r.extrapolate = order % 3 != 0 || axes == 3;
        CAPTURE(axes);
        CAPTURE(int(bound));
        CAPTURE(order);
        std::vector<std::int64_t> in{2, 2}, out{2, 2}, at{2};
        for (const auto n : shape) in.push_back(n), out.push_back(2), at.push_back(2);
        at.push_back(axes);
        const at::Tensor image = wave(in, 0.9), values = wave(out, 1.3),
                         grid = wave(at, 2.1) * 4 + 1.013;
        const auto pull = [&](const auto& t) { return grid_pull(t[0], t[1], r); };
        const auto grad = [&](const auto& t) { return grid_grad(t[0], t[1], r); };
        const auto push = [&](const auto& t) { return grid_push(t[0], t[1], shape, r); };
        const auto count = [&](const auto& t) { return grid_count(t[0], shape, r); };
        CHECK(gradient_error(pull, {image, grid}) < 1e-6);
        CHECK(gradient_error(push, {values, grid}) < 1e-6);
        CHECK(gradient_error(count, {grid}) < 1e-6);
        CHECK(gradient_error(grad, {image, grid}) < 1e-6);
        const double there = (push(std::vector{values, grid}) * image).sum().item<double>(),
                     here = (pull(std::vector{image, grid}) * values).sum().item<double>();
        CHECK(std::abs(there - here) < 1e-9);
      }
}

TEST_CASE("points outside, or not finite, give nothing where there is no extrapolation") {
  GridRule r = rule(Bound::dct2, 1);
  const double nan = std::nan("");
  CHECK(apart(grid_pull(row({1, 2, 4}), points({nan, INFINITY, 1}), r), row({0, 0, 2})) == 0);
  r.extrapolate = false;
  CHECK(apart(grid_pull(row({1, 2, 4}), points({-.06, -.04, 2.04, 2.06}), r), row({0, 1, 4, 0})) <
        0.2);
  CHECK(grid_push(row({1, 1}), points({-.06, 2.06}), {3}, r).sum().item<double>() == 0);
}

// Float32 volumes are sampled 16 points at a time, float64 ones point by point.
TEST_CASE("points together come to what each comes to alone") {
  const std::vector<std::int64_t> shape{13, 12, 14};
  const at::Tensor image = wave({2, 2, 13, 12, 14}, 0.9), values = wave({2, 2, 7, 5, 3}, 1.3),
                   slopes = wave({2, 2, 7, 5, 3, 3}, 0.4);
  at::Tensor grid = wave({2, 7, 5, 3, 3}, 2.1) * 8 + 6;
  grid[0][0] = at::round(grid[0][0]);
  for (int order = 0; order < 8; ++order)
    for (const bool extrapolate : {true, false}) {
      CAPTURE(order);
      CAPTURE(extrapolate);
      GridRule r = rule(Bound::dct2, order);
      r.extrapolate = extrapolate;
      const auto all = [&](at::ScalarType type) {
        const auto of = [&](const at::Tensor& t) { return t.to(type).detach().requires_grad_(); };
        const at::Tensor x = of(image), g = of(grid), v = of(values);
        const at::Tensor pull = grid_pull(x, g, r), push = grid_push(v, g, shape, r),
                         grad = grid_grad(x, g, r);
        std::vector<at::Tensor> made{pull, push, grad, grid_count(g, shape, r)};
        for (const auto& t : torch::autograd::grad({pull}, {x, g}, {values.to(type)}))
          made.push_back(t);
        for (const auto& t : torch::autograd::grad({push}, {v, g}, {image.to(type)}))
          made.push_back(t);
        made.push_back(torch::autograd::grad({grad}, {x}, {slopes.to(type)})[0]);
        return made;
      };
      const auto together = all(at::kFloat), alone = all(at::kDouble);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        CAPTURE(i);
        CHECK(apart(together[i].to(at::kDouble), alone[i]) < 2e-5);
      }
    }
}

TEST_CASE("an image of more than 2^31 voxels is read at the right place") {
  constexpr std::int64_t n = 1300;  // an axis; pages that nothing touches take no memory
  const std::int64_t bytes = n * n * n * static_cast<std::int64_t>(sizeof(float));
  void* room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(room != MAP_FAILED);
  const at::Tensor image = at::from_blob(room, {1, 1, n, n, n}, at::kFloat);
  image[0][0][n - 2][n - 3][n - 4] = 8;
  const auto at = static_cast<float>(n);
  const at::Tensor grid =
      at::tensor({at - 2, at - 3, at - 4, at - 2, at - 3.5F, at - 4, 1.F, 2.F, 3.F})
          .view({1, 3, 1, 1, 3});
  for (const auto& [order, half] : {std::pair{0, 8.}, std::pair{1, 4.}}) {
    CAPTURE(order);
    CHECK(apart(grid_pull(image, grid, rule(Bound::zero, order)).to(at::kDouble),
                row({8, half, 0})) == 0);
  }
  munmap(room, bytes);
}

TEST_CASE("one thread and three give the same bits of the resampler") {
  const int before = at::get_num_threads();
  for (const int order : {0, 1, 2, 3}) {
    const GridRule r = rule(Bound::dct2, order);
    const at::Tensor image = wave({1, 2, 9, 8, 7}, 0.7).to(at::kFloat),
                     grid = (wave({1, 9, 8, 7, 3}, 2.9) * 6 + 3).to(at::kFloat);
    std::vector<at::Tensor> results[2];
    for (const int n : {0, 1}) {
      at::set_num_threads(n ? 3 : 1);
      results[n] = {grid_pull(image, grid, r), grid_push(image, grid, {9, 8, 7}, r),
                    grid_grad(image, grid, r), grid_count(grid, {5, 4, 3}, r)};
    }
    for (std::size_t i = 0; i < results[0].size(); ++i)
      CHECK(at::equal(results[0][i], results[1][i]));
  }
  at::set_num_threads(before);
}

TEST_CASE("a point whose node a bound moves to the other end arrives on any number of threads") {
  const int before = at::get_num_threads();
  for (const int order : {0, 1}) {
    // Order 0 rounds -0.5 to -1, and n - 0.5 to n.
    const at::Tensor x = at::tensor({-.5F, 8.5F, 3.F, -1.F, 9.F, 4.5F});
    const at::Tensor grid = at::stack({x, at::full_like(x, 2), at::full_like(x, 1)}, 1)
                                .view({1, 6, 1, 1, 3}),
                     values = at::arange(1, 7, at::kFloat).view({1, 1, 6, 1, 1});
    at::set_num_threads(1);
    const at::Tensor wanted = grid_push(values, grid, {9, 4, 3}, rule(Bound::dft, order));
    CHECK(wanted.sum().item<double>() == 21);
    for (const int threads : {2, 3, 9}) {
      CAPTURE(threads);
      at::set_num_threads(threads);
      CHECK(at::equal(grid_push(values, grid, {9, 4, 3}, rule(Bound::dft, order)), wanted));
    }
  }
  at::set_num_threads(before);
}

TEST_CASE("with spline coefficients grid_pull goes through the image's values") {
  for (const Bound bound : {Bound::dct1, Bound::dct2, Bound::dft})
    for (int order = 2; order < 8; ++order) {
      const GridRule r = rule(bound, order);
      const at::Tensor image = wave({1, 1, 6, 5}, 1.1);
      const auto axes =
          at::meshgrid({at::arange(6, at::kDouble), at::arange(5, at::kDouble)}, "ij");
      const at::Tensor grid = at::stack(axes, -1).unsqueeze(0);
      CHECK(apart(grid_pull(spline_coefficients(image, r), grid, r), image) < 1e-10);
    }
}
