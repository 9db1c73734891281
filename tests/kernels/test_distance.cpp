// Distances held against those of every pair of voxels.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/image/distance.h"

using namespace sluice::kernels;

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

// Voxels that are set, [n, axes] float64 in millimetres.
at::Tensor places(const at::Tensor& set, const std::vector<double>& mm) {
  return set.nonzero().to(at::kDouble) * at::tensor(mm, at::kDouble);
}

// Of each place of `from` to the nearest one of `to`.
at::Tensor nearest(const at::Tensor& from, const at::Tensor& to, Distance metric) {
  const at::Tensor apart = (from.unsqueeze(1) - to.unsqueeze(0)).abs();
  const at::Tensor far = metric == Distance::euclidean ? apart.square().sum(2).sqrt()
                         : metric == Distance::taxicab ? apart.sum(2)
                                                       : apart.amax(2);
  return far.amin(1).to(at::kFloat);
}

// By the definition: a voxel of the mask with one outside of it, or the border, beside it.
at::Tensor surface(const at::Tensor& mask) {
  at::Tensor inside = mask.clone();
  for (std::int64_t d = 0; d < mask.dim(); ++d) {
    const at::Tensor none = at::zeros_like(mask.narrow(d, 0, 1));
    const at::Tensor wide = at::cat({none, mask, none}, d);
    inside = inside & wide.narrow(d, 0, mask.size(d)) & wide.narrow(d, 2, mask.size(d));
  }
  return mask & ~inside;
}

const std::vector<std::vector<std::int64_t>> shapes{{9},        {40},        {7, 1},    {5, 33},
                                                    {21, 18},   {1, 1, 5},   {6, 5, 7}, {3, 19, 1},
                                                    {9, 4, 35}, {11, 17, 16}};
const std::vector<std::vector<double>> spacings{{1, 1, 1}, {.7, .7, .7}, {.85, 1.2, 3}};
const std::vector<Distance> metrics{Distance::euclidean, Distance::chessboard, Distance::taxicab};

template <class F>
void each_case(const F& f) {
  for (const auto& shape : shapes)
    for (auto mm : spacings)
      for (const Distance metric : metrics) {
        mm.resize(shape.size());
        if (metric != Distance::euclidean) mm.assign(shape.size(), 1);
        CAPTURE(shape);
        CAPTURE(mm);
        CAPTURE(static_cast<int>(metric));
        f(shape, mm, metric);
      }
}

}  // namespace

TEST_CASE("a distance to a set is the least over all of its voxels") {
  at::manual_seed(3);
  each_case([](const auto& shape, const auto& mm, Distance metric) {
    for (const double share : {.02, .3}) {
      const at::Tensor set = at::rand(shape).lt(share);
      const at::Tensor found = distance_to(set, mm, metric);
      if (!set.any().template item<bool>()) {
        CHECK(found.eq(infinite).all().template item<bool>());
        continue;
      }
      const at::Tensor wanted =
          nearest(places(at::ones_like(set), mm), places(set, mm), metric).view(shape);
      CHECK(at::allclose(found, wanted, 2e-7, 0));
    }
  });
}

TEST_CASE("distances between surfaces are the least over all of their voxels, both ways") {
  at::manual_seed(4);
  each_case([](const auto& shape, const auto& mm, Distance metric) {
    const at::Tensor a = at::rand(shape).lt(.4), b = at::rand(shape).lt(.2);
    const auto [there, back] = surface_distances(a, b, mm, metric);
    const at::Tensor on_a = places(surface(a), mm), on_b = places(surface(b), mm);
    if (on_a.numel() == 0 || on_b.numel() == 0) return;
    CHECK(at::allclose(there, nearest(on_a, on_b, metric), 2e-7, 0));
    CHECK(at::allclose(back, nearest(on_b, on_a, metric), 2e-7, 0));
    CHECK_FALSE(surface_distances(a, b, mm, metric, false).back.defined());
  });
}

TEST_CASE("a surface without another is infinitely far, and two empty ones have no distances") {
  at::Tensor a = at::zeros({5, 6, 7}, at::kBool), none = at::zeros_like(a);
  a.narrow(0, 1, 3).narrow(1, 1, 3).narrow(2, 1, 3).fill_(true);
  for (const auto& d :
       {surface_distances(a, none, {1, 1, 1}), surface_distances(none, a, {1, 1, 1})})
    for (const at::Tensor& side : {d.there, d.back}) {
      CHECK(side.numel() == 26);
      CHECK(side.eq(infinite).all().item<bool>());
    }
  CHECK(surface_distances(none, none, {1, 1, 1}).there.numel() == 0);
  CHECK(surface_distances(a.narrow(0, 0, 0), none.narrow(0, 0, 0), {1, 1, 1}).back.numel() == 0);
  CHECK(distance_to(none.narrow(0, 0, 0), {1, 1, 1}).numel() == 0);
}

TEST_CASE("far voxels of a large picture are found exactly") {
  at::Tensor set = at::zeros({3000, 2500}, at::kBool);
  set[2999][7] = true;
  const at::Tensor found = distance_to(set, {1, 1});
  CHECK(found[0][2499].item<float>() == static_cast<float>(std::hypot(2999., 2492.)));
  CHECK(found[2999][2499].item<float>() == 2492);
}
