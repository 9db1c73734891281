// one_of and some_of: nodes inside a node, chosen by draws; and the balls of the synthetic source.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "drive.h"
#include "engine/base/error.h"

using namespace sluice;

namespace {

Json add(double v) {
  return {{"type", "rand_shift_intensity"}, {"prob", 1.0}, {"offsets", {v, v}}};
}
Json times(double v) {
  return {{"type", "rand_scale_intensity"}, {"prob", 1.0}, {"factors", {v - 1, v - 1}}};
}

// What becomes of a 1.
double value(const std::string& type, const Json& params, std::uint64_t index) {
  const auto out =
      drive(type, params, {sample_of("image", at::ones({1, 1, 1, 1}))}, at_index(index));
  return out.at(0).tensor("image").item<double>();
}

}  // namespace

TEST_CASE("one_of does one of its transforms, as often as the weights say") {
  const Json params = {{"transforms", {add(1), times(5), Json::array()}}, {"weights", {1, 2, 1}}};
  std::map<int, int> often;
  for (std::uint64_t i = 0; i < 800; ++i) ++often[int(std::lround(value("one_of", params, i)))];
  CHECK(often.size() == 3);
  CHECK(std::abs(often[2] - 200) < 50);  // add
  CHECK(std::abs(often[5] - 400) < 57);  // times
  CHECK(std::abs(often[1] - 200) < 50);  // nothing
  CHECK(value("one_of", params, 7) == value("one_of", params, 7));
}

TEST_CASE("an entry that is a list is done in a row") {
  CHECK(value("one_of", {{"transforms", {Json::array({add(1), times(5)})}}}, 0) == 10);
  CHECK(value("one_of", {{"transforms", {Json::array({times(5), add(1)})}}}, 0) == 6);
}

TEST_CASE("by_epoch does the stage of the epoch") {
  const Json params = {{"transforms", {Json::array(), add(1), Json::array({add(1), times(5)})}},
                       {"from", {0, 2, 5}}};
  const auto in = [&](std::uint32_t epoch) {
    Stamp stamp = at_index(0);
    stamp.epoch = epoch;
    return drive("by_epoch", params, {sample_of("image", at::ones({1, 1, 1, 1}))}, stamp)
        .at(0)
        .tensor("image")
        .item<double>();
  };
  for (const auto& [epoch, value] :
       std::map<std::uint32_t, double>{{0, 1}, {1, 1}, {2, 2}, {4, 2}, {5, 10}, {1000, 10}})
    CHECK(in(epoch) == value);
  for (const Json& from : {Json{1, 2, 5}, Json{0, 2}, Json{0, 2, 2}, Json{0, 5, 2}}) {
    Json wrong = params;
    wrong["from"] = from;
    CHECK_THROWS_AS(Driver("by_epoch", wrong), Error);
  }
}

TEST_CASE("some_of does as many as are drawn, in a drawn order, and none twice") {
  const Json all = {{"transforms", {add(1), times(5)}}};
  std::set<double> seen;
  for (std::uint64_t i = 0; i < 40; ++i) seen.insert(value("some_of", all, i));
  CHECK(seen == std::set<double>{6, 10});  // both orders, and never fewer
  Json some = all;
  some["num_transforms"] = {0, 1};
  seen.clear();
  for (std::uint64_t i = 0; i < 60; ++i) seen.insert(value("some_of", some, i));
  CHECK(seen == std::set<double>{1, 2, 5});
  some["num_transforms"] = 2;
  some["replace"] = true;
  seen.clear();
  for (std::uint64_t i = 0; i < 60; ++i) seen.insert(value("some_of", some, i));
  CHECK(seen == std::set<double>{3, 6, 10, 25});
}

TEST_CASE("what is wrong with a sample inside a node is said with that node's place and type") {
  const Json whole = {{"type", "histogram_normalize"}, {"keys", "image"}};
  const Sample holed = sample_of("image", at::full({1, 2, 2}, NAN));
  const Json params = {{"transforms", {Json::array({add(1), whole})}}, {"from", Json::array({0})}};
  CHECK_THROWS_WITH_AS(
      drive("by_epoch", params, {holed}),
      doctest::Contains("/0/1 (histogram_normalize): field \"image\": a voxel is not a finite"),
      DataError);
}

TEST_CASE("what stands inside a node draws by its own place") {
  const Json noise = {{"type", "rand_gaussian_noise"}, {"prob", 1.0}};
  const Json both = {{"transforms", {Json::array({noise, noise})}}};
  const auto run = [&](const Json& params) {
    return drive("one_of", params, {sample_of("image", at::zeros({1, 50, 1, 1}))})
        .at(0)
        .tensor("image");
  };
  const at::Tensor once = run({{"transforms", {Json::array({noise})}}}), twice = run(both);
  CHECK_FALSE(at::allclose(twice, 2 * once));
}

TEST_CASE("nodes that make no sample of one, and wrong parameters, cannot stand inside a node") {
  const Json wrong[] = {{{"type", "batch"}},
                        {{"type", "cache"}},
                        {{"type", "adam"}},
                        {{"type", "grid_split"}},
                        {{"type", "unet"}},
                        {{"type", "no_such_node"}},
                        {{"type", "rand_flip"}, {"prob", 2.0}},
                        {{"type", "rand_flip"}, {"prbo", 1.0}},
                        {{"type", "zoom"}}};
  for (const Json& one : wrong) {
    CAPTURE(one.dump());
    CHECK_THROWS_AS(Driver("one_of", {{"transforms", {one}}}), Error);
  }
  CHECK_THROWS(Driver("one_of", {{"transforms", Json::array()}}));
  CHECK_THROWS_AS(Driver("one_of", {{"transforms", {add(1)}}, {"weights", {1, 2}}}), Error);
  CHECK_THROWS_AS(Driver("some_of", {{"transforms", {add(1)}}, {"num_transforms", {1, 2}}}), Error);
}

TEST_CASE("synthetic makes the images of MONAI's create_test_image_3d for the same seeds") {
  const Json size = {{"spatial_size", {14, 16, 18}}, {"num_objs", 4}, {"num_samples", 5}};
  const auto made = [&](std::uint64_t index, const Json& more) {
    Json params = size;
    params.update(more);
    return Driver("synthetic", params).fire({}, at_index(index)).samples().at(0);
  };
  // numpy.random.RandomState(3) and (4); sums of the image, and weighted with the voxels' numbers.
  const Sample a = made(3, {{"num_seg_classes", 1}, {"rad_max", 5}, {"rad_min", 2}});
  const Sample b = made(1, {{"num_seg_classes", 3},
                            {"rad_max", 6},
                            {"rad_min", 2},
                            {"noise_max", 0.2},
                            {"seed", 2},
                            {"first", 1}});
  const at::Tensor at = at::arange(14 * 16 * 18, at::kDouble).view({1, 14, 16, 18});
  const auto sums = [&](const at::Tensor& t) {
    return std::pair(t.to(at::kDouble).sum().item<double>(),
                     (t.to(at::kDouble) * at).sum().item<double>());
  };
  CHECK(sums(a.tensor("image")).first == doctest::Approx(505.1066679954529).epsilon(1e-6));
  CHECK(sums(a.tensor("image")).second == doctest::Approx(904208.7242337465).epsilon(1e-6));
  CHECK(sums(a.tensor("label")) == std::pair(586.0, 1063904.0));
  CHECK(sums(b.tensor("image")).first == doctest::Approx(562.7087026899471).epsilon(1e-6));
  CHECK(sums(b.tensor("image")).second == doctest::Approx(1111815.191903986).epsilon(1e-6));
  CHECK(sums(b.tensor("label")) == std::pair(577.0, 1092587.0));
  CHECK(Driver("synthetic", {{"num_samples", 2}}).fire({}, at_index(2)).ended);
}

TEST_CASE("synthetic numbers its balls where a field is named for that") {
  Json params = {{"num_samples", 3}, {"spatial_size", {60, 70}}, {"num_objs", 4}, {"rad_max", 14},
                 {"rad_min", 5},     {"num_seg_classes", 2}};
  const Sample plain = Driver("synthetic", params).fire({}, at_index(1)).samples().at(0);
  CHECK_FALSE(plain.has("label_inst"));
  params["instance_key"] = "label_inst";
  const Sample s = Driver("synthetic", params).fire({}, at_index(1)).samples().at(0);
  CHECK(at::equal(s.tensor("image"), plain.tensor("image")));
  const at::Tensor numbers = s.tensor("label_inst"), label = s.tensor("label");
  CHECK(at::equal(numbers.gt(0), label.gt(0)));
  CHECK(numbers.max().item<int>() == 4);  // the last one lies on top
  for (int n = 1; n <= 4; ++n) {          // a ball is of one class
    const at::Tensor classes = label.masked_select(numbers.eq(n));
    if (classes.numel() > 0) CHECK(classes.min().item<int>() == classes.max().item<int>());
  }
}

TEST_CASE("synthetic makes the pictures of MONAI's create_test_image_2d for the same seeds") {
  const Sample a = Driver("synthetic", {{"num_samples", 5},
                                        {"spatial_size", {64, 72}},
                                        {"num_objs", 4},
                                        {"rad_max", 20},
                                        {"noise_max", 0.5}})
                       .fire({}, at_index(3))
                       .samples()
                       .at(0);
  const at::Tensor &image = a.tensor("image"), &label = a.tensor("label");
  CHECK(image.sizes() == at::IntArrayRef({1, 64, 72}));
  CHECK(label.to(at::kDouble).sum().item<double>() == 3408);
  CHECK((label > 0).sum().item<std::int64_t>() == 1234);
  CHECK(image.to(at::kDouble).sum().item<double>() ==
        doctest::Approx(1576.404925425828).epsilon(1e-6));
  CHECK(image[0][5][6].item<double>() == doctest::Approx(0.1459593));
  CHECK(label[0][40][41].item<double>() == 3);
}
