// resample_argmax: nnU-Net's export of logits, and the ways back that it takes.
#include <doctest/doctest.h>

#include <cstdlib>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/base/read_file.h"
#include "kernels/image/resampled_classes.h"
#include "kernels/image/spline_resize.h"

using namespace sluice;

namespace {

// sin(1 + 0.7 i + 1.3 j + 0.4 k + 2 c) + 0.1 i - 0.05 j k
at::Tensor scores(std::int64_t channels, const std::vector<std::int64_t>& shape) {
  at::Tensor x = at::empty({channels, shape[0], shape[1], shape[2]});
  auto a = x.accessor<float, 4>();
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < shape[0]; ++i)
      for (int j = 0; j < shape[1]; ++j)
        for (int k = 0; k < shape[2]; ++k)
          a[c][i][j][k] = static_cast<float>(std::sin(1 + 0.7 * i + 1.3 * j + 0.4 * k + 2 * c) +
                                             0.1 * i - 0.05 * j * k);
  return x;
}

at::Tensor numbers_in(const Json& lists) {  // four deep
  std::vector<float> all;
  for (const Json& a : lists)
    for (const Json& b : a)
      for (const Json& c : b)
        for (const Json& d : c) all.push_back(d);
  return at::tensor(all).view({std::ssize(lists), std::ssize(lists[0]), std::ssize(lists[0][0]),
                               std::ssize(lists[0][0][0])});
}

Sample fired(const std::string& type, const Json& params, const Sample& sample) {
  Driver driver(type, params, OpenContext{});
  return driver.fire({sample}).samples().at(0);
}

// As a network would: class indices of the image, one of `classes`, as logits.
Sample predicted(const Sample& sample, std::int64_t classes) {
  const Field& image = sample.at("image");
  Sample out = sample;
  std::vector<at::Tensor> logits;
  for (std::int64_t c = 0; c < classes; ++c) logits.push_back(image.tensor[0].eq(c).to(at::kFloat));
  out.set("pred", Field(at::stack(logits), image.meta));
  return out;
}

}  // namespace

TEST_CASE("logits are resampled and become classes as nnU-Net exports them") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  const Json golden = Json::parse(read_text(std::string(root) + "/nnunet_golden.json"));
  for (const Json& g : golden["resample"]) {
    CAPTURE(g["shape"].dump());
    const auto shape = g["shape"].get<std::vector<std::int64_t>>(),
               wanted = g["new_shape"].get<std::vector<std::int64_t>>();
    const auto slices = slice_axis(g["spacing"], g["new_spacing"]);
    const at::Tensor expected = numbers_in(g["probabilities_order1"]);
    const at::Tensor logits = scores(expected.size(0), shape);
    AxisPlaces places[3];
    for (int d = 0; d < 3; ++d) places[d] = AxisPlaces::stretched(shape[d], wanted[d], d != slices);
    const at::Tensor classes = resampled_classes(logits, places);
    CHECK(at::equal(classes.to(at::kLong), expected.argmax(0, true)));
    // Regions: where the last is above 0 it wins.
    const std::vector<std::int64_t> order{3, 300};
    if (expected.size(0) == 2) {
      at::Tensor painted = at::zeros_like(expected[0], at::kInt);
      for (int c = 0; c < 2; ++c) painted.masked_fill_(expected[c].gt(0), order[c]);
      CHECK(at::equal(resampled_classes(logits, places, order)[0], painted));
    }
  }
}

TEST_CASE("resample_argmax comes back through crops, flips and exchanged axes to the voxel") {
  const at::Tensor image =
      at::arange(7 * 6 * 5, at::kLong).mul(7).remainder(4).view({1, 7, 6, 5}).to(at::kFloat);
  at::Tensor framed = at::zeros({1, 9, 10, 8});
  framed.narrow(1, 1, 7).narrow(2, 3, 6).narrow(3, 2, 5).copy_(image + 1);
  Sample s = sample_of("image", framed, {0.5, 0, 0, 3, 0, 0, 2, -1, 0, -1, 0, 4, 0, 0, 0, 1});
  s = fired("transpose", {{"keys", "image"}, {"indices", {0, 3, 1, 2}}, {"geometry", true}}, s);
  s = fired("crop_foreground", {{"keys", "image"}}, s);
  s = fired("flip", {{"keys", "image"}, {"spatial_axis", {0, 2}}}, s);
  CHECK(s.tensor("image").sizes() == at::IntArrayRef({1, 5, 7, 6}));
  CHECK(s.at("image").geometry().history.size() == 3);
  s = fired("resample_argmax", Json::object(), predicted(s, 5));
  CHECK(at::equal(s.tensor("pred"), framed.to(at::kByte)));
  CHECK(s.at("pred").geometry().history.empty());
  CHECK(s.at("pred").geometry().affine[3] == 3);
  CHECK(s.at("pred").geometry().affine[6] == 2);
}

TEST_CASE("resample_argmax goes back through a resampling, and says what it does not go back") {
  const at::Tensor blocks = at::arange(4 * 4 * 4, at::kLong).mul(5).remainder(3).view({4, 4, 4});
  at::Tensor framed = at::zeros({1, 10, 8, 8});
  framed[0].narrow(0, 2, 8).copy_(
      blocks.repeat_interleave(2, 0).repeat_interleave(2, 1).repeat_interleave(2, 2) + 1);
  Sample s = fired("crop_foreground", {{"keys", "image"}}, sample_of("image", framed));
  const Sample coarse =
      fired("resize", {{"keys", "image"}, {"spatial_size", 4}, {"mode", "nearest"}}, s);
  CHECK(coarse.tensor("image").sizes() == at::IntArrayRef({1, 4, 4, 4}));
  const Sample back = fired("resample_argmax", Json::object(), predicted(coarse, 4));
  CHECK(at::equal(back.tensor("pred"), framed.to(at::kByte)));

  const Sample moved = fired("flip", {{"keys", "image"}, {"spatial_axis", 0}}, coarse);
  CHECK_THROWS_WITH_AS(fired("resample_argmax", Json::object(), predicted(moved, 4)),
                       doctest::Contains("went through flip after resize"), DataError);
  const Sample twice = fired("resize", {{"keys", "image"}, {"spatial_size", 5}}, coarse);
  CHECK_THROWS_WITH_AS(fired("resample_argmax", Json::object(), predicted(twice, 4)),
                       doctest::Contains("after resize"), DataError);
  CHECK_THROWS_WITH_AS(
      fired("resample_argmax", {{"regions_class_order", {1, 2}}}, predicted(coarse, 4)),
      doctest::Contains("has 4 channels, regions_class_order 2 labels"), DataError);
}

TEST_CASE("transpose moves no channels where it keeps the geometry") {
  CHECK_THROWS_WITH_AS(
      fired("transpose", {{"keys", "image"}, {"indices", {1, 0, 2, 3}}, {"geometry", true}},
            sample_of("image", at::zeros({2, 3, 4, 5}))),
      doctest::Contains("move the channels"), DataError);
}

TEST_CASE("labels lie where the image is, whatever places a resampling gave its voxels") {
  Sample sample;
  sample.name = "a";
  auto meta = std::make_shared<Meta>();
  sample.set(
      "image",
      Field(at::arange(35).to(at::kFloat).view({1, 35, 1, 1}).expand({1, 35, 6, 5}).contiguous(),
            meta));
  std::vector<std::pair<std::string, Json>> ways;
  for (const double size : {0.7, 2.0, 3.0, 4.0})
    for (const bool extent : {false, true})
      ways.emplace_back("spacing", Json{{"pixdim", {size, 1.0, 1.0}}, {"scale_extent", extent}});
  ways.emplace_back("resize", Json{{"spatial_size", {11, 6, 5}}, {"mode", "trilinear"}});
  for (auto& [type, params] : ways) {
    CAPTURE(params.dump());
    params["keys"] = "image";
    Sample network = fired(type, params, sample);
    const Field& image = network.at("image");
    // A ramp with its zero at 17.3: the logits are linear, so its labels begin at voxel 18.
    network.set("pred",
                Field(at::cat({at::zeros_like(image.tensor), image.tensor - 17.3}), image.meta));
    const at::Tensor labels =
        fired("resample_argmax", {{"separate_z", "never"}}, network).tensor("pred");
    CHECK((labels.sizes() == at::IntArrayRef{1, 35, 6, 5}));
    CHECK(labels.sum().item<std::int64_t>() == (35 - 18) * 30);
    CHECK(labels.slice(1, 18).min().item<std::int64_t>() == 1);
  }
}
