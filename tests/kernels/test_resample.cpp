// Resampling against MONAI's grids (tests/golden/spatial.json) and against itself.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "kernels/augment/elastic.h"
#include "kernels/image/affine_params.h"
#include "kernels/image/resample.h"
#include "kernels/image/spatial.h"
#include "tests/golden/spatial.h"

using namespace sluice;

namespace {

AffineParams params_of(const nlohmann::ordered_json& j) {
  const auto list = [&](const char* key) { return j.value(key, std::vector<double>{}); };
  return {list("rotate"), list("shear"), list("translate"), list("scale")};
}

Sampling sampling_of(const nlohmann::ordered_json& j) {
  return {parse_interpolation(j["mode"].get<std::string>()),
          parse_padding(j["padding_mode"].get<std::string>())};
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

const std::vector<Padding> paddings{Padding::zeros, Padding::border, Padding::reflection};

}  // namespace

TEST_CASE("affine resampling is MONAI's Affine, in every mode and padding") {
  for (const auto& c : spatial_cases("affine")) {
    const auto size = c["size"].get<Shape3>();
    const at::Tensor v = made_volume();
    const Affine m = about_centres(centred_affine(params_of(c["params"]), 3), shape_of(v), size);
    check_golden(resample(v, m, size, sampling_of(c["params"])), c);
    const Affine world = multiply(c["affine"].get<Affine>(), m);
    CHECK(near(world, c["out_affine"].get<Affine>(), 1e-6));
  }
}

TEST_CASE("a 2-D image is resampled as a volume one voxel thick") {
  const auto c = spatial_cases("affine_2d")[0];
  const at::Tensor v = to_volume(made_volume(2, true));
  const Affine m =
      about_centres(centred_affine(params_of(c["params"]), 2), shape_of(v), shape_of(v));
  check_golden(from_volume(resample(v, m, shape_of(v), sampling_of(c["params"])), 2), c);
}

TEST_CASE("a picture is resampled as a slice of a volume of such slices") {
  const at::Tensor picture = to_volume(made_volume(2, true));
  const at::Tensor thick = picture.repeat({1, 1, 1, 3});
  const Shape3 flat{21, 70, 1}, deep{21, 70, 3};
  const at::Tensor nodes = at::sin(at::arange(3 * 6 * 19, at::kFloat)).reshape({3, 6, 19, 1});
  at::Tensor along = nodes.clone();
  along[2].zero_();  // from one slice into another there is nothing to see
  const Displacement by{along, 4}, thick_by{along.repeat({1, 1, 1, 2}), 4};
  for (double turn : {0.0, 0.4})
    for (auto p : paddings)
      for (auto mode : {Interpolation::linear, Interpolation::nearest}) {
        const Sampling how{mode, p};
        const double c = 0.9 * std::cos(turn), s = 0.9 * std::sin(turn);
        const Affine m{c, -s, 0, -1.3, s, c, 0, 0.7, 0, 0, 1, 0, 0, 0, 0, 1};
        const auto middle = [](const at::Tensor& t) { return t.slice(3, 1, 2); };
        const at::Tensor got = resample(picture, m, flat, how);
        CHECK(got.is_contiguous());
        const double allowed = mode == Interpolation::linear ? 2e-5 : 0;
        CHECK(worst(got, middle(resample(thick, m, deep, how))) <= allowed);
        CHECK(worst(resample(picture, m, by, flat, how),
                    middle(resample(thick, m, thick_by, deep, how))) <= allowed);
        const Box part{{3, 5, 0}, {11, 41, 1}};
        CHECK(resample(picture, m, flat, how, part)
                  .equal(got.slice(1, 3, 14).slice(2, 5, 46).contiguous()));
      }
}

TEST_CASE("an elastic deformation is MONAI's Rand3DElastic where the noise is the same") {
  const at::Tensor noise = made_volume(3) * 0.5;
  for (const auto& c : spatial_cases("gaussian"))
    check_golden(smooth(noise, gaussian_taps(c["params"]["sigma"])), c);
  const auto c = spatial_cases("elastic")[0];
  const Displacement by{smooth(noise, gaussian_taps(1.0)) * 4.0, 1};
  const at::Tensor v = made_volume();
  const Affine m =
      about_centres(centred_affine(params_of(c["params"]), 3), shape_of(v), shape_of(v));
  check_golden(resample(v, m, by, shape_of(v), {Interpolation::linear, Padding::reflection}), c,
               2e-5);
}

TEST_CASE("the separable path agrees with the general one") {
  const at::Tensor v = made_volume();
  const Affine m{0.83, 0, 0, -2.3, 0, -1.37, 0, 9.7, 0, 0, 0.41, -1.2, 0, 0, 0, 1};
  for (auto p : paddings)
    for (auto mode : {Interpolation::linear, Interpolation::nearest})
      for (bool corners : {false, true}) {
        const Sampling how{mode, p, corners};
        const Shape3 size{19, 10, 40};
        CHECK(worst(resample(v, m, size, how), resample_general(v, m, size, how)) < 1e-5);
      }
}

TEST_CASE("the identity gives the volume back, bit for bit") {
  const at::Tensor v = made_volume();
  const Affine one = scaling({1, 1, 1});
  for (auto p : paddings)
    for (auto mode : {Interpolation::linear, Interpolation::nearest}) {
      CHECK(at::equal(resample(v, one, shape_of(v), {mode, p}), v));
      CHECK(at::equal(resample_general(v, one, shape_of(v), {mode, p}), v));
    }
}

TEST_CASE("a linear ramp is reproduced exactly inside, whatever the rotation") {
  const at::Tensor v = at::arange(40, at::kFloat).view({1, 40, 1, 1}).expand({1, 40, 40, 40});
  const Shape3 n{40, 40, 40};
  const Affine m =
      about_centres(centred_affine({{0.4, 0.3, 0.2}, {}, {}, {0.4, 0.5, 0.6}}, 3), n, n);
  const at::Tensor out = resample(v, m, n, {});
  double error = 0;
  for (int x = 0; x < 40; x += 7)
    for (int y = 0; y < 40; y += 5)
      for (int z = 0; z < 40; ++z) {
        const double at = map_point(m, {double(x), double(y), double(z)})[0];
        if (at > 0 && at < 39)
          error = std::max(error, std::abs(out[0][x][y][z].item<double>() - at));
      }
  CHECK(error < 1e-4);
}

TEST_CASE("rows longer than a block, far from the origin, keep their precision") {
  const std::int64_t n = 3000;
  const at::Tensor v = at::sin(at::arange(n, at::kDouble) * 0.1).to(at::kFloat).view({1, 1, 1, n});
  Affine m = scaling({1, 1, 0.7301});
  m[2] = 1e-12;  // not quite separable in spirit; the general path is called directly
  const at::Tensor out = resample_general(v, m, {1, 1, 4000}, {});
  double error = 0;
  for (int k = 0; k < 4000; ++k) {
    const double at = k * 0.7301;
    const double a = std::sin(0.1 * std::floor(at)), b = std::sin(0.1 * (std::floor(at) + 1));
    const double expected = a + (b - a) * (at - std::floor(at));
    error = std::max(error, std::abs(out[0][0][0][k].item<double>() - expected));
  }
  CHECK(error < 1e-5);
}

TEST_CASE("nearest keeps the type of labels, for every element size") {
  const at::Tensor v = (made_volume(1) * 10).to(at::kInt);
  const Affine m =
      about_centres(centred_affine({{0.3, 0.1, -0.2}, {}, {}, {}}, 3), shape_of(v), {12, 12, 12});
  const Sampling how{Interpolation::nearest, Padding::zeros};
  const at::Tensor expected = resample(v, m, {12, 12, 12}, how);
  for (auto type : {at::kChar, at::kShort, at::kLong, at::kFloat, at::kDouble}) {
    const at::Tensor out = resample(v.to(type), m, {12, 12, 12}, how);
    const bool kept = out.scalar_type() == type;
    CHECK(kept);
    CHECK(at::equal(out.to(at::kInt), expected));
  }
}

TEST_CASE("far outside, zeros is 0, border the nearest face, and nothing is read out of bounds") {
  const at::Tensor v = made_volume(1);
  const Affine away = translation({1e7, -1e7, 1e12});
  const Affine tilted = multiply(away, centred_affine({{0.1, 0.2, 0.3}, {}, {}, {}}, 3));
  for (const Affine& m : {away, tilted}) {
    CHECK(resample(v, m, {4, 4, 4}, {Interpolation::linear, Padding::zeros})
              .abs()
              .max()
              .item<float>() == 0);
    const at::Tensor border = resample(v, m, {4, 4, 4}, {Interpolation::linear, Padding::border});
    CHECK(border[0][0][0][0].item<float>() == v[0][12][0][10].item<float>());
    CHECK(resample(v, m, {4, 4, 4}, {Interpolation::linear, Padding::reflection})
              .isfinite()
              .all()
              .item<bool>());
  }
}

TEST_CASE("several threads give the same bits as one") {
  const at::Tensor v = made_volume();
  const Affine m =
      about_centres(centred_affine({{0.3, 0.1, -0.2}, {}, {}, {}}, 3), shape_of(v), {40, 41, 42});
  Sampling one, many;
  many.parallel = true;
  CHECK(at::equal(resample(v, m, {40, 41, 42}, one), resample(v, m, {40, 41, 42}, many)));
  const Affine straight = scaling({0.3, 0.2, 0.25});
  CHECK(at::equal(resample(v, straight, {40, 41, 42}, one),
                  resample(v, straight, {40, 41, 42}, many)));
}

TEST_CASE("the coarse displacement field has the dense field's spread and is smooth") {
  const Shape3 n{64, 60, 56};
  for (double sigma : {3.0, 6.0}) {
    const Displacement by = random_displacement(n, sigma, 100, 42, 7);
    CHECK(by.step == (sigma == 6.0 ? 3 : 1));
    // What MONAI's field has inside: uniform noise of variance 1/3 under the filter's weights.
    double power = 0;
    for (float t : gaussian_taps(sigma)) power += double(t) * t;
    const double expected = 100 * std::sqrt(1.0 / 3 * power * power * power);
    const at::Tensor inside = by.nodes.narrow(1, 6 / by.step + 1, by.nodes.size(1) / 2);
    CHECK(inside.std().item<double>() == doctest::Approx(expected).epsilon(0.25));
  }
  const Displacement again = random_displacement(n, 6, 100, 42, 7);
  CHECK(at::equal(again.nodes, random_displacement(n, 6, 100, 42, 7).nodes));
  CHECK_FALSE(at::equal(again.nodes, random_displacement(n, 6, 100, 43, 7).nodes));
}

TEST_CASE("a displacement on every third voxel is the dense one interpolated") {
  const at::Tensor v = made_volume(1);
  const Shape3 n = shape_of(v);
  const at::Tensor nodes = at::sin(at::arange(3 * 5 * 4 * 5, at::kFloat)).view({3, 5, 4, 5});
  // The dense field, by the resampler itself: node k stands at voxel 3k.
  const at::Tensor dense = resample(nodes, scaling({1 / 3., 1 / 3., 1 / 3.}), n, {});
  const Sampling how{Interpolation::linear, Padding::reflection};
  const Affine one = scaling({1, 1, 1});
  CHECK(worst(resample(v, one, Displacement{nodes, 3}, n, how),
              resample(v, one, Displacement{dense, 1}, n, how)) < 1e-5);
  CHECK_THROWS_AS(resample(v, one, Displacement{nodes, 2}, n, how), DataError);
}

TEST_CASE("what cannot be resampled is a data error") {
  CHECK_THROWS_AS(resample(at::zeros({3, 4, 5}), scaling({1, 1, 1}), {2, 2, 2}, {}), DataError);
  CHECK_THROWS_AS(resample(at::zeros({1, 3, 0, 5}), scaling({1, 1, 1}), {2, 2, 2}, {}), DataError);
  CHECK_THROWS_AS(parse_interpolation("cubic"), DataError);
  CHECK_THROWS_AS(parse_padding("mirror"), DataError);
}
