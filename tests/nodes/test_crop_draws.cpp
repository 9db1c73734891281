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

// The same with its box moved out of the image.
Sample beyond(Sample s) {
  s.set("box", Field(s.tensor("box") + 100, s.at("box").meta));
  return s;
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

TEST_CASE("patches around boxes hold a whole box or a part of one, and the boxes are cut to them") {
  // Pixel (x, y) of the image is 12 x + y.
  Sample in = sample_of("image", at::arange(144, at::kFloat).view({1, 12, 12}));
  in.set("box", sample_of("box", at::tensor({4, 5, 6, 8}, at::kFloat).view({1, 4})).at("box"));
  in.set("label", sample_of("label", at::tensor({7}, at::kLong)).at("label"));
  const char* const type = "rand_crop_box_by_pos_neg_label";
  // Where the patches begin, by the centres that MONAI takes for foreground.
  struct Starts {
    bool whole;
    std::set<std::int64_t> x, y;
  };
  for (const Starts& want :
       {Starts{true, {1, 2, 3}, {2, 3, 4}}, {false, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5, 6}}}) {
    CAPTURE(want.whole);
    Starts seen{want.whole, {}, {}};
    const Json params = {
        {"spatial_size", 6}, {"neg", 0}, {"whole_box", want.whole}, {"num_samples", 400}};
    for (const Sample& s : drive(type, params, {in})) {
      REQUIRE(s.tensor("image").sizes().vec() == std::vector<std::int64_t>{1, 6, 6});
      const auto first = s.tensor("image")[0][0][0].item<std::int64_t>();
      const std::int64_t x = first / 12, y = first % 12;
      seen.x.insert(x);
      seen.y.insert(y);
      CHECK(s.tensor("box").equal((in.tensor("box") - at::tensor({x, y, x, y})).clamp(0, 6)));
      CHECK(s.tensor("label").equal(in.tensor("label")));
    }
    CHECK(seen.x == want.x);
    CHECK(seen.y == want.y);
  }
  // One pixel is background; its patch lies beside the box.
  at::Tensor light = at::zeros({1, 12, 12});
  light[0][10][10] = 3;
  in.set("light", sample_of("light", light).at("light"));
  const Json beside = {
      {"spatial_size", 6}, {"pos", 0}, {"thresh_image_key", "light"}, {"image_threshold", 2}};
  const Sample patch = drive(type, beside, {in}).at(0);
  CHECK(patch.tensor("image")[0][0][0].item<std::int64_t>() == 6 * 12 + 6);
  CHECK(patch.tensor("box").sizes().vec() == std::vector<std::int64_t>{0, 4});
  CHECK(patch.tensor("label").numel() == 0);
  for (const Sample& none :
       {patch, drive("clip_box_to_image", Json::object(), {beyond(in)}).at(0)}) {
    const Sample one =
        drive(type, {{"spatial_size", none.tensor("image").size(1)}, {"neg", 0}}, {in}).at(0);
    const Sample batch = Driver("batch", {{"size", 2}}).gather({one, none}).samples().at(0);
    CHECK(batch.tensor("box").sizes().vec() == std::vector<std::int64_t>{2, 1, 4});
    CHECK(batch.tensor("box")[1].eq(-1).all().item<bool>());
    CHECK(batch.tensor("label").equal(at::tensor({7, -1}, at::kLong).view({2, 1})));
  }

  CHECK_THROWS_WITH_AS(drive(type, {{"spatial_size", {6, 20}}}, {in}),
                       doctest::Contains("see allow_smaller"), DataError);
  const Json smaller = {{"spatial_size", {6, 20}}, {"allow_smaller", true}};
  CHECK(drive(type, smaller, {in})[0].tensor("image").sizes().vec() ==
        std::vector<std::int64_t>{1, 6, 12});
  CHECK_THROWS_WITH_AS(drive(type, {{"spatial_size", 6}, {"pos", 0}, {"neg", 0}}, {in}),
                       doctest::Contains("both 0"), Error);
  in.set("box", sample_of("box", at::zeros({1, 6})).at("box"));
  CHECK_THROWS_WITH_AS(drive(type, {{"spatial_size", 6}}, {in}), doctest::Contains("3 axes"),
                       DataError);
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
  // As MONAI's re.search: anywhere in the name.
  const Sample none = drive("delete_items", {{"keys", "ma"}, {"use_re", true}}, {in}).at(0);
  CHECK(none.has("label"));
  CHECK_FALSE(none.has("image"));
  CHECK_FALSE(none.has("image_a"));
  CHECK_THROWS_WITH_AS(Driver("delete_items", {{"keys", "image("}, {"use_re", true}}),
                       doctest::Contains("\"image(\" is no regular expression"), Error);
}

TEST_CASE("a list that has neither one entry nor one an axis is refused by its name") {
  Sample volume = numbered(), picture = sample_of("image", at::ones({1, 6, 5}));
  picture.set("points", sample_of("points", at::ones({2, 2})).at("points"));
  const Json two{1, 2}, shares{0.5, 0.75}, ones{1, 1};
  struct Case {
    const char* type;
    Json params;
    const char* why;
    bool flat = false;
  };
  const Case all[] = {
      {"gaussian_smooth", {{"sigma", two}}, "sigma has one entry or 3, found 2"},
      {"gaussian_sharpen", {{"sigma1", two}}, "sigma1 has one entry or 3, found 2"},
      {"gaussian_sharpen", {{"sigma2", two}}, "sigma2 has one entry or 3, found 2"},
      {"median_smooth", {{"radius", two}}, "radius has one entry or 3, found 2"},
      {"distance_transform_edt", {{"sampling", two}}, "sampling has one entry or 3, found 2"},
      {"add_extreme_points_channel", {{"sigma", two}}, "sigma has one entry or 3, found 2"},
      {"remove_small_objects",
       {{"by_measure", true}, {"pixdim", two}},
       "pixdim has one entry or 3, found 2"},
      {"zoom", {{"zoom", two}}, "zoom has one entry or 3, found 2"},
      {"zoom", {{"zoom", {1, 1, 2}}}, "zoom has one entry or 2, found 3", true},
      {"rand_zoom",
       {{"prob", 1}, {"min_zoom", {1, 1, 1}}, {"max_zoom", {1, 1, 2}}},
       "min_zoom has one entry or 2, found 3",
       true},
      {"rotate", {{"angle", two}}, "angle has one entry or 3, found 2"},
      {"rotate", {{"angle", {1, 2, 3}}}, "angle has one entry, found 3", true},
      {"resize",
       {{"spatial_size", 3}, {"anti_aliasing", true}, {"anti_aliasing_sigma", two}},
       "anti_aliasing_sigma has one entry or 3, found 2"},
      {"center_scale_crop", {{"roi_scale", shares}}, "roi_scale has one entry or 3, found 2"},
      {"rand_scale_crop", {{"roi_scale", shares}}, "roi_scale has one entry or 3, found 2"},
      {"rand_scale_crop",
       {{"roi_scale", 0.5}, {"max_roi_scale", shares}, {"random_size", true}},
       "max_roi_scale has one entry or 3, found 2"},
      {"grid_distortion",
       {{"num_cells", ones}, {"distort_steps", {ones, ones, ones}}},
       "num_cells has one entry or 3, found 2"},
      {"rand_grid_distortion",
       {{"prob", 1}, {"num_cells", two}},
       "num_cells has one entry or 3, found 2"},
      {"rand_spacing",
       {{"min_pixdim", two}, {"max_pixdim", 3}},
       "min_pixdim has one entry or 3, found 2"},
      {"grid_patch",
       {{"patch_size", {2, 2, 2}}, {"overlap", shares}},
       "overlap has one entry or 3, found 2"},
      {"rand_grid_patch",
       {{"patch_size", {2, 2, 2}}, {"min_offset", ones}},
       "min_offset has one entry or 3, found 2"},
      {"rand_grid_patch",
       {{"patch_size", {2, 2, 2}}, {"max_offset", ones}},
       "max_offset has one entry or 3, found 2"},
      {"generate_heatmap",
       {{"keys", "points"}, {"spatial_shape", 8}, {"sigma", {1, 2, 3}}},
       "sigma has one entry or 2, found 3",
       true},
      {"prob_nms", {{"key", "image"}, {"sigma", two}}, "sigma has one entry or 3, found 2"},
      {"prob_nms", {{"key", "image"}, {"box_size", two}}, "box_size has one entry or 3, found 2"},
      {"spatial_crop",
       {{"roi_start", two}, {"roi_end", {3, 3, 3}}},
       "roi_start and roi_end have 2 and 3 numbers"},
      {"spatial_crop", {{"roi_center", {1, 1, 1}}, {"roi_size", 2}}, "3 axes, the image 2", true}};
  for (const Case& one : all) {
    CAPTURE(std::string(one.type));
    Json params = one.params;
    if (!params.contains("keys") && !params.contains("key")) params["keys"] = "image";
    CHECK_THROWS_WITH_AS(drive(one.type, params, {one.flat ? picture : volume}),
                         doctest::Contains(one.why), Error);
  }
  // Of a sample's axes it is the sample that does not fit: another may.
  CHECK_THROWS_AS(drive("gaussian_smooth", {{"sigma", two}}, {volume}), DataError);
  try {
    drive("rand_spacing", {{"min_pixdim", two}, {"max_pixdim", 3}}, {volume});
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit == Exit::usage);
  }
}

TEST_CASE("masks, weights and sizes that do not go together are refused in words") {
  Sample in = numbered();
  in.set("flat", sample_of("flat", at::ones({1, 5, 4})).at("flat"));
  in.set("two", sample_of("two", at::ones({2, 6, 5, 4})).at("two"));
  in.set("row", sample_of("row", at::ones({1, 6})).at("row"));
  struct Case {
    const char* type;
    Json params;
    const char* why;
  };
  const Case all[] = {
      {"histogram_normalize", {{"mask_key", "flat"}}, "the mask [1, 5, 4]"},
      {"histogram_normalize", {{"mask_key", "two"}}, "the mask [2, 6, 5, 4]"},
      {"mask_intensity", {{"mask_key", "flat"}}, "the mask [1, 5, 4]"},
      {"rand_weighted_crop", {{"w_key", "two"}, {"spatial_size", 2}}, "weights has one channel"},
      {"rand_coarse_dropout",
       {{"holes", 1}, {"prob", 1}, {"spatial_size", 3}, {"max_spatial_size", {4, 2, 4}}},
       "max_spatial_size 2 of axis 1 is below spatial_size 3"},
      {"mean_ensemble", {{"weights", {1, -1}}}, "weights add up to 0"},
      {"fg_bg_to_indices", {{"image_key", "flat"}}, "\"flat\" has shape [5, 4, 1]"},
      {"rand_crop_by_pos_neg_label",
       {{"image_key", "row"}, {"spatial_size", 2}},
       "\"row\" has shape [1, 6]"},
      {"classes_to_indices", {{"image_key", "row"}, {"num_classes", 3}}, "has shape [1, 6]"}};
  for (const Case& one : all) {
    CAPTURE(std::string(one.type));
    Json params = one.params;
    params["keys"] = "image";
    CHECK_THROWS_WITH_AS(drive(one.type, params, {in}), doctest::Contains(one.why), Error);
  }
}

TEST_CASE("labels of several channels, and labels and objects that are not there, are named") {
  const Sample hot = sample_of("pred", at::ones({2, 4, 4}, at::kByte));
  const char* const largest = "keep_largest_connected_component";
  CHECK_THROWS_WITH_AS(drive(largest, {{"is_onehot", false}}, {hot}),
                       doctest::Contains("a label map has one channel, not 2"), DataError);
  for (const char* const type : {largest, "fill_holes"}) {
    CHECK_THROWS_WITH_AS(drive(type, {{"applied_labels", 5}}, {hot}),
                         doctest::Contains("label 5 is none of 2 channels"), DataError);
    CHECK_THROWS(drive(type, {{"applied_labels", Json::array()}}, {hot}));
  }
  CHECK_THROWS(drive("label_filter", {{"keys", "pred"}, {"applied_labels", Json::array()}}, {hot}));
  Sample far = sample_of("label", at::full({1, 4, 4}, 300, at::kInt));
  far.set("mask_value", sample_of("mask_value", at::full({1}, 300, at::kInt)).at("mask_value"));
  CHECK(drive("split_label", Json::object(), {far})[0].tensor("label").sum().item<int>() == 16);
  CHECK_THROWS_WITH_AS(drive("split_label", {{"to_binary_mask", false}}, {far}),
                       doctest::Contains("object 300 of \"label\" is no uint8"), DataError);
}

TEST_CASE("labels that float32 does not hold are told apart, and those that a type does not hold") {
  const std::int64_t even = std::int64_t{1} << 24, odd = even + 1;
  for (const auto type : {at::kInt, at::kLong}) {
    at::Tensor map = at::full({1, 7, 7}, odd, type);
    map[0][3][3] = 0;  // a hole
    map[0].slice(0, 0, 2).fill_(even);
    const Sample in = sample_of("label", map);
    const Json key = {{"keys", "label"}};
    at::Tensor whole = map.clone();
    whole[0][3][3] = odd;
    CHECK(drive("fill_holes", key, {in}).at(0).tensor("label").equal(whole));
    at::Tensor two = map.clone();
    two[0][6][6] = even;  // a second component
    const at::Tensor kept =
        drive("keep_largest_connected_component", key, {sample_of("label", two)})
            .at(0)
            .tensor("label");
    two[0][6][6] = 0;
    CHECK(kept.equal(two));
  }
  const Sample bytes = sample_of("label", at::full({1, 4, 4}, 44, at::kByte));
  for (const char* const node : {"fill_holes", "keep_largest_connected_component"})
    CHECK(drive(node, {{"keys", "label"}, {"applied_labels", 300}}, {bytes})
              .at(0)
              .tensor("label")
              .equal(bytes.tensor("label")));
}

TEST_CASE("axes and channels that are not there are refused in words") {
  const Sample in = numbered();
  const std::pair<const char*, Json> all[] = {
      {"squeeze_dim", {{"dim", 1}}},
      {"squeeze_dim", {{"dim", 7}}},
      {"transpose", {{"indices", {0, 1, 2}}}},
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

TEST_CASE("settings that fit no sample are refused before the first one") {
  const std::pair<const char*, Json> all[] = {
      {"orientation", {{"axcodes", "RAX"}}},
      {"orientation", {{"axcodes", "RLS"}}},
      {"transpose", {{"indices", {0, 1, 1, 2}}}},
      {"transpose", {{"indices", {1, 2, 3, 4}}}},
      {"transpose", {{"indices", Json::array()}}},
      {"rotate90", {{"spatial_axes", {0, 0}}}},
      {"rand_rotate90", {{"spatial_axes", {1, 1}}}},
      {"spatial_crop", {{"roi_start", {4, 4, 4}}, {"roi_end", {8, 4, 8}}}},
      {"spatial_crop", {{"roi_start", {-4}}, {"roi_end", {0}}}},
      {"spatial_crop", {{"roi_center", {4, 4, 4}}, {"roi_size", 0}}}};
  for (const auto& [type, params] : all) {
    CAPTURE(params.dump());
    try {
      const Driver node(type, params);
      FAIL("no error");
    } catch (const Error& e) {
      CHECK(e.exit == Exit::usage);
    }
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
