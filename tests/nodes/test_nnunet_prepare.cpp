// crop_nonzero, normalize_channels and resample_spline beside nnU-Net's preprocessing.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "engine/base/error.h"
#include "kernels/image/label_votes.h"
#include "kernels/image/spline_resize.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden.h"

using namespace sluice;

namespace {

void flatten(const Json& j, std::vector<double>& values) {
  if (j.is_array())
    for (const Json& e : j) flatten(e, values);
  else
    values.push_back(j.get<double>());
}

at::Tensor tensor_of(const Json& j) {
  std::vector<double> values;
  std::vector<std::int64_t> shape;
  for (const Json* e = &j; e->is_array(); e = &(*e)[0]) shape.push_back(std::ssize(*e));
  flatten(j, values);
  return at::tensor(values, at::kDouble).view(shape);
}

// As make_nnunet.py makes it: a body with a hole, 0 around it.
at::Tensor made_image() {
  at::Tensor x = at::zeros({2, 9, 11, 10});
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 9; ++i)
      for (int j = 0; j < 11; ++j)
        for (int k = 0; k < 10; ++k) {
          const int r = (i - 4) * (i - 4) + (j - 5) * (j - 5) + (k - 4) * (k - 4);
          if (r <= 12 && r > 0)
            x[c][i][j][k] = std::sin(1 + 0.7 * i + 1.3 * j + 0.4 * k + 2 * c) * 40 + 100;
        }
  return x;
}

at::Tensor made_label() {
  at::Tensor y = at::zeros({1, 9, 11, 10}, at::kByte);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 11; ++j)
      for (int k = 0; k < 10; ++k)
        if ((i - 4) * (i - 4) + (j - 5) * (j - 5) <= 5) y[0][i][j][k] = (i + 2 * j + k) / 5 % 3;
  return y;
}

Sample made(const Affine& affine = identity_affine) {
  Sample s = sample_of("image", made_image(), affine);
  s.set("label", sample_of("label", made_label(), affine).at("label"));
  return s;
}

Sample cropped(const Affine& affine = identity_affine) {
  return drive("crop_nonzero", {{"label_key", "label"}, {"mask_key", "body"}}, {made(affine)})
      .at(0);
}

Affine scaled(const std::vector<double>& spacing) {
  Affine a = identity_affine;
  for (std::size_t d = 0; d < 3; ++d) a[5 * d] = spacing[d];
  return a;
}

double worst(const at::Tensor& found, const Json& wanted) {
  const at::Tensor w = tensor_of(wanted);
  REQUIRE(found.sizes().vec() == w.sizes().vec());
  return (found.to(at::kDouble) - w).abs().max().item<double>();
}

}  // namespace

TEST_CASE("crop_nonzero finds nnU-Net's box and marks what is outside of the body") {
  const Sample s = cropped();
  const Json& g = golden("nnunet_prepare.json");
  for (std::int64_t d = 0; d < 3; ++d) {
    const Json& range = g["box"][static_cast<std::size_t>(d)];
    CHECK(s.tensor("image").size(d + 1) == range[1].get<int>() - range[0].get<int>());
    CHECK(s.at("image").geometry().affine[static_cast<std::size_t>(4 * d + 3)] ==
          range[0].get<double>());
  }
  CHECK(bool(s.tensor("label").scalar_type() == at::kShort));
  CHECK(worst(s.tensor("label"), g["label"]) == 0);
  CHECK(at::equal(s.tensor("body").ne(0), s.tensor("label").ge(0)));
  const Sample alone = drive("crop_nonzero", {{"mask_key", "body"}}, {made()}).at(0);
  // The hole is inside of the body.
  CHECK(alone.tensor("body").sum().item<int>() == made_image()[0].count_nonzero().item<int>() + 1);
  CHECK(s.at("image").geometry().history.back().transform == "crop_nonzero");
}

TEST_CASE("crop_nonzero crops further fields to the same box and leaves their values") {
  Sample s = made();
  s.set("previous", sample_of("label", made_label().add(1)).at("label"));
  const Sample one =
      drive("crop_nonzero", {{"label_key", "label"}, {"more_keys", {"previous"}}}, {s}).at(0);
  const Sample other = drive("crop_nonzero", {}, {made()}).at(0);
  CHECK(one.tensor("previous").sizes() == one.tensor("label").sizes());
  const at::Tensor label = one.tensor("label").to(at::kLong), inside = label.ge(0);
  CHECK(at::equal(one.tensor("previous").to(at::kLong).sub(1).masked_select(inside),
                  label.masked_select(inside)));
  CHECK(one.tensor("previous").min().item<int>() == 1);
  CHECK(at::equal(one.tensor("image"), other.tensor("image")));
  s.set("previous", sample_of("label", at::zeros({1, 3, 3, 3})).at("label"));
  CHECK_THROWS_WITH_AS(drive("crop_nonzero", {{"more_keys", {"previous"}}}, {s}),
                       doctest::Contains("field \"previous\" has shape"), DataError);
}

TEST_CASE("crop_nonzero leaves an image alone that is 0 everywhere, or nowhere") {
  for (const at::Tensor& image : {at::zeros({1, 3, 4, 5}), at::ones({1, 3, 4, 5})}) {
    const Sample s = drive("crop_nonzero", Json::object(), {sample_of("image", image)}).at(0);
    CHECK(at::equal(s.tensor("image"), image));
    CHECK(s.at("image").geometry().history.empty());
  }
  Sample other = made();
  other.set("label", sample_of("label", at::zeros({1, 9, 11, 9})).at("label"));
  CHECK_THROWS_AS(drive("crop_nonzero", {{"label_key", "label"}}, {other}), DataError);
}

TEST_CASE("normalize_channels gives nnU-Net's values by each scheme") {
  const Sample s = cropped();
  const Json& g = golden("nnunet_prepare.json")["normalized"];
  const std::pair<const char*, Json> cases[] = {
      {"ZScore", {{"schemes", {"zscore"}}}},
      {"ZScore_masked", {{"schemes", {"zscore"}}, {"masked", {true}}, {"mask_key", "body"}}},
      {"CT",
       {{"schemes", {"ct"}}, {"mean", {95}}, {"std", {20}}, {"lower", {70}}, {"upper", {130}}}},
      {"RescaleTo01", {{"schemes", {"rescale_to_0_1"}}}},
      {"RGBTo01", {{"schemes", {"rgb_to_0_1", "rgb_to_0_1"}}}}};
  for (const auto& [name, params] : cases) {
    INFO(std::string(name));
    const Sample out = drive("normalize_channels", params, {s}).at(0);
    CHECK(worst(out.tensor("image"), g[name]) < 6e-5);
  }
  const Sample same = drive("normalize_channels", {{"schemes", {"none"}}}, {s}).at(0);
  CHECK(at::equal(same.tensor("image"), s.tensor("image")));
  CHECK_THROWS_AS(drive("normalize_channels", {{"schemes", {"ct", "none", "none"}}}, {s}),
                  DataError);
}

TEST_CASE("resample_spline gives nnU-Net's volumes and labels") {
  const double range = 140;
  for (const Json& g : golden("nnunet_prepare.json")["resampled"]) {
    const auto spacing = g["spacing"].get<std::vector<double>>();
    INFO(g["spacing"].dump());
    INFO(g["new_spacing"].dump());
    const Sample out =
        drive("resample_spline", {{"spacing", g["new_spacing"]}, {"label_keys", {"label"}}},
              {cropped(scaled(spacing))})
            .at(0);
    CHECK(worst(out.tensor("image"), g["image"]) < 1e-5 * range);
    CHECK(worst(out.tensor("label"), g["label"]) == 0);
  }
}

TEST_CASE("resample_spline gives nnU-Net's golden volumes") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  std::ifstream file(std::filesystem::path(root) / "nnunet_golden.json");
  for (const Json& g : Json::parse(file)["resample"]) {
    const auto n = g["shape"].get<std::vector<std::int64_t>>();
    at::Tensor x = at::zeros({1, n[0], n[1], n[2]}),
               y = at::zeros({1, n[0], n[1], n[2]}, at::kByte);
    for (int i = 0; i < n[0]; ++i)
      for (int j = 0; j < n[1]; ++j)
        for (int k = 0; k < n[2]; ++k) {
          x[0][i][j][k] = std::sin(1 + 0.7 * i + 1.3 * j + 0.4 * k) + 0.1 * i - 0.05 * j * k;
          y[0][i][j][k] = (i + 2 * j + k) / 4 % 3;
        }
    Shape3 to{};
    for (std::size_t d = 0; d < 3; ++d) to[d] = g["new_shape"][d];
    const auto slices = slice_axis({g["spacing"][0], g["spacing"][1], g["spacing"][2]},
                                   {g["new_spacing"][0], g["new_spacing"][1], g["new_spacing"][2]});
    CHECK(slices.has_value() == g["separate"].get<bool>());
    if (slices) CHECK(*slices == g["axis"].get<int>());
    INFO(g["new_shape"].dump());
    CHECK(worst(spline_resize(x, to, slices), g["image_order3"]) < 5e-6);
    CHECK(worst(label_resize(y, to, slices), g["label_order1"]) == 0);
  }
}

TEST_CASE("resample_spline keeps the outer faces, a range and what has the size already") {
  const Sample in = made(scaled({2, 1, 1}));
  const Sample out = drive("resample_spline", {{"spacing", {1, 1, 0}}}, {in}).at(0);
  CHECK(out.tensor("image").sizes().vec() == std::vector<std::int64_t>{2, 18, 11, 10});
  const Affine& a = out.at("image").geometry().affine;
  CHECK(a[0] == doctest::Approx(1));
  CHECK(a[3] == doctest::Approx(-0.5));
  CHECK(out.tensor("image").min().item<float>() >= in.tensor("image").min().item<float>());
  CHECK(out.tensor("image").max().item<float>() <= in.tensor("image").max().item<float>());
  const Sample same = drive("resample_spline", {{"spacing", {2, 1, 1}}}, {in}).at(0);
  CHECK(at::equal(same.tensor("image"), in.tensor("image")));
  CHECK_THROWS_AS(drive("resample_spline", {{"spacing", {100, 1, 1}}}, {in}), DataError);
  CHECK_THROWS_AS(drive("resample_spline", {{"spacing", {1, 1}}}, {in}), DataError);
}
