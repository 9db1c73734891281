// Where random crops lie, and what nodes that choose fields refuse. Boxes that draw nothing are
// MONAI's: test_monai.cpp.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <set>

#include "drive.h"
#include "engine/base/error.h"

using namespace sluice;

namespace {

// Voxel i of the image is i; of the label's classes 0, 1 and 2 the last has two voxels, and class 3
// none.
Sample numbered() {
  Sample s = sample_of("image", at::arange(6 * 5 * 4, at::kFloat).view({1, 6, 5, 4}));
  at::Tensor label = at::zeros({1, 6, 5, 4}, at::kByte);
  label[0].slice(0, 3).fill_(1);
  label[0][0][0][0] = label[0][5][4][3] = 2;
  s.set("label", sample_of("label", label).at("label"));
  return s;
}

std::vector<std::int64_t> counts(const std::vector<Sample>& patches) {
  std::vector<std::int64_t> n(4);
  for (const Sample& s : patches) ++n[s.tensor("label").item<std::int64_t>()];
  return n;
}

}  // namespace

TEST_CASE("crops by classes have centres of the classes in the given ratios") {
  Json params = {{"spatial_size", 1}, {"num_samples", 600}, {"num_classes", 4}};
  const auto alike = counts(drive("rand_crop_by_label_classes", params, {numbered()}));
  CHECK(alike[3] == 0);
  for (int c = 0; c < 3; ++c) CHECK(std::abs(alike[c] - 200) < 60);
  params["ratios"] = {0, 3, 1, 9};
  const auto some = counts(drive("rand_crop_by_label_classes", params, {numbered()}));
  CHECK(some[0] == 0);
  CHECK(std::abs(some[1] - 450) < 60);
  CHECK(std::abs(some[2] - 150) < 60);
  params["ratios"] = {0, 0, 0, 1};
  CHECK_THROWS_AS(drive("rand_crop_by_label_classes", params, {numbered()}), DataError);
  params["ratios"] = {1, 1};
  CHECK_THROWS_AS(drive("rand_crop_by_label_classes", params, {numbered()}), DataError);
}

TEST_CASE("classes of one-hot labels and lists of their voxels give the same crops") {
  const Sample in = numbered();
  for (const Json& more : {Json::object(), Json{{"max_samples_per_class", 3}},
                           Json{{"image_key", "image"}, {"image_threshold", 50}}}) {
    Json params = {{"spatial_size", 2}, {"num_samples", 8}, {"num_classes", 4}};
    params.update(more);
    Json listing = more;
    listing["num_classes"] = 4;
    const auto found = drive("rand_crop_by_label_classes", params, {in}, at_index(5));
    const Sample listed = drive("classes_to_indices", listing, {in}).at(0);
    Json by_list = params;
    by_list["indices_key"] = "label_cls_indices";
    const auto taken = drive("rand_crop_by_label_classes", by_list, {listed}, at_index(5));
    Sample hot = in;
    const at::Tensor label = in.tensor("label");
    hot.set("hot", Field(at::cat({label == 0, label == 1, label == 2, label == 3}).to(at::kByte),
                         in.at("label").meta));
    Json by_channel = params;
    by_channel["label_key"] = "hot";
    const auto channels = drive("rand_crop_by_label_classes", by_channel, {hot}, at_index(5));
    REQUIRE(found.size() == 8);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(at::equal(found[i].tensor("image"), taken[i].tensor("image")));
      CHECK(at::equal(found[i].tensor("image"), channels[i].tensor("image")));
      CHECK_FALSE(taken[i].has("label_cls_indices"));
    }
  }
}

TEST_CASE("of a class with many voxels evenly spaced ones count") {
  const Json params = {{"spatial_size", 1}, {"num_samples", 200}, {"num_classes", 2},
                       {"ratios", {0, 1}},  {"keys", {"image"}},  {"max_samples_per_class", 3}};
  Sample in = numbered();
  at::Tensor label = at::ones({1, 6, 5, 4}, at::kByte);
  in.set("label", sample_of("label", label).at("label"));
  std::set<double> seen;
  for (const Sample& s : drive("rand_crop_by_label_classes", params, {in}))
    seen.insert(s.tensor("image").item<double>());
  CHECK(seen == std::set<double>{0, 60, 119});  // round(0, 59.5, 119), half to even
}

TEST_CASE("crops by weights have centres where the weights are, and never stick out") {
  Sample in = numbered();
  at::Tensor weight = at::zeros({1, 6, 5, 4});
  weight[0][3][2][1] = 3;
  weight[0][0][0][0] = 100;  // no centre of a patch that lies inside
  in.set("weight", sample_of("weight", weight).at("weight"));
  Json params = {{"spatial_size", {3, 3, 2}}, {"num_samples", 20}};
  for (const Sample& s : drive("rand_weighted_crop", params, {in})) {
    CHECK(s.tensor("image").sizes().vec() == std::vector<std::int64_t>{1, 3, 3, 2});
    CHECK(s.tensor("image")[0][1][1][1].item<double>() == 3 * 20 + 2 * 4 + 1);
  }
  in.set("weight", sample_of("weight", at::zeros({1, 6, 5, 4})).at("weight"));
  std::set<double> seen;
  params["num_samples"] = 400;
  for (const Sample& s : drive("rand_weighted_crop", params, {in}))
    seen.insert(s.tensor("image")[0][0][0][0].item<double>());
  CHECK(seen.size() == 3 * 2 * 2);  // MONAI's places: extent less window
}

TEST_CASE("random crops of samples and of scales lie everywhere and share a box between keys") {
  const Sample in = numbered();
  for (const auto& [type, params] : std::vector<std::pair<const char*, Json>>{
           {"rand_spatial_crop_samples", {{"roi_size", {5, 4, 4}}, {"num_samples", 60}}},
           {"rand_scale_crop", {{"roi_scale", {0.75, 0.7, 1}}}}}) {
    CAPTURE(std::string(type));
    std::set<double> corners;
    for (std::uint64_t i = 0; i < 60; ++i)
      for (const Sample& s : drive(type, params, {in}, at_index(i))) {
        CHECK(s.tensor("image").sizes().vec() == std::vector<std::int64_t>{1, 5, 4, 4});
        CHECK(s.tensor("label").sizes().vec() == std::vector<std::int64_t>{1, 5, 4, 4});
        CHECK(s.at("image").geometry().affine == s.at("label").geometry().affine);
        corners.insert(s.tensor("image")[0][0][0][0].item<double>());
      }
    CHECK(corners == std::set<double>{0, 4, 20, 24});
  }
}

TEST_CASE("fields go by name or by pattern, and one that is not there is named") {
  Sample in = numbered();
  in.set("image_a", in.at("image"));
  const Sample out =
      drive("delete_items", {{"keys", {"image_.*", "label"}}, {"use_re", {true, false}}}, {in})
          .at(0);
  CHECK(out.has("image"));
  CHECK_FALSE(out.has("image_a"));
  CHECK_FALSE(out.has("label"));
  CHECK_THROWS_WITH_AS(drive("delete_items", {{"keys", "nothing"}}, {in}),
                       doctest::Contains("nothing"), DataError);
}

TEST_CASE("axes and channels that are not there are refused in words") {
  const Sample in = numbered();
  const std::pair<const char*, Json> all[] = {
      {"squeeze_dim", {{"dim", 1}}},
      {"squeeze_dim", {{"dim", 7}}},
      {"transpose", {{"indices", {0, 1, 1, 2}}}},
      {"select_channels", {{"channels", {1}}}},
      {"select_channels", {{"from", 1}}},
      {"split_dim", {{"output_postfixes", {"a", "b"}}}},
      {"copy_items", {{"names", {"label"}}}},
      {"spatial_crop", {{"keys", "image"}, {"roi_start", {7}}, {"roi_end", {9}}}},
      {"border_pad", {{"keys", "image"}, {"spatial_border", {1, 2}}}}};
  for (const auto& [type, params] : all) {
    CAPTURE(std::string(type));
    CHECK_THROWS_AS(drive(type, params, {in}), DataError);
  }
}

TEST_CASE("a label that is no class of to_onehot is named") {
  const Sample in = sample_of("pred", at::tensor({0.f, 1.f, 3.f}).view({1, 3, 1}));
  CHECK_THROWS_WITH_AS(drive("as_discrete", {{"to_onehot", 3}}, {in}),
                       doctest::Contains("3.0 is no class of to_onehot 3"), DataError);
  CHECK(drive("as_discrete", {{"to_onehot", 4}}, {in}).at(0).tensor("pred").sum().item<float>() ==
        3);
}

TEST_CASE("a vote for no class is named") {
  Sample in = sample_of("a", at::tensor({0.f, 2.f}).view({1, 2}));
  in.set("b", in.at("a"));
  Json params{{"keys", {"a", "b"}}, {"output_key", "pred"}, {"num_classes", 3}};
  CHECK(at::equal(drive("vote_ensemble", params, {in}).at(0).tensor("pred"), in.tensor("a")));
  params["num_classes"] = 2;
  CHECK_THROWS_WITH_AS(drive("vote_ensemble", params, {in}),
                       doctest::Contains("a vote for 2.0, which is none of the 2 classes"),
                       DataError);
}

TEST_CASE("a strict threshold leaves out the value itself") {
  const Sample in = sample_of("pred", at::tensor({0.f, 0.5f, 1.f}).view({1, 3, 1}));
  for (const bool strict : {false, true}) {
    const Json params = {{"threshold", 0.5}, {"strict", strict}};
    const at::Tensor out = drive("as_discrete", params, {in}).at(0).tensor("pred");
    CHECK(out[0][1][0].item<float>() == (strict ? 0 : 1));
    CHECK(out[0][2][0].item<float>() == 1);
  }
}
