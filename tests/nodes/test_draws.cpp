// What random transforms draw: within their bounds, all over them, one draw for all keys, nothing
// with prob 0. That what is drawn is done as MONAI does it: test_monai.cpp.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "drive.h"
#include "engine/base/error.h"
#include "kernels/augment/pending.h"
#include "kernels/image/distortion.h"

using namespace sluice;

namespace {

at::Tensor waves(at::IntArrayRef shape) {
  const auto n = c10::multiply_integers(shape);
  return at::arange(n, at::kDouble).mul(0.37).sin().to(at::kFloat).view(shape);
}

// Fields "image" and "other" with the same content.
Sample twins(const at::Tensor& image) {
  Sample s = sample_of("image", image);
  s.set("other", s.at("image"));
  return s;
}

Json with(Json params, const Json& more) {
  params.update(more);
  return params;
}

const std::pair<const char*, Json> all[] = {
    {"rand_zoom", {{"min_zoom", 0.5}, {"max_zoom", 1.5}, {"mode", "bilinear"}}},
    {"rand_rotate", {{"range_x", 0.5}, {"range_y", 0.5}, {"range_z", 0.5}, {"mode", "bilinear"}}},
    {"rand_axis_flip", Json::object()},
    {"rand_grid_distortion", {{"mode", "bilinear"}, {"distort_limit", 0.3}, {"num_cells", 3}}},
    {"rand_gaussian_smooth", Json::object()},
    {"rand_gaussian_sharpen", Json::object()},
    {"rand_histogram_shift", Json::object()},
    {"rand_std_shift_intensity", {{"factors", 1.0}}},
    {"rand_coarse_dropout", {{"holes", 2}, {"spatial_size", 3}}},
    {"rand_color_jitter", {{"brightness", 0.5}, {"contrast", 0.5}}}};

// The numbers that the newest transform of a field wrote down.
std::vector<double> drawn(const std::string& type, const Json& params, const at::Tensor& image,
                          std::uint64_t index) {
  const auto out = drive(type, with(params, {{"prob", 1.0}, {"keys", "image"}}),
                         {sample_of("image", image)}, at_index(index));
  return out.at(0).at("image").geometry().history.back().values;
}

}  // namespace

TEST_CASE("random transforms share a draw between keys and follow the stamp") {
  const at::Tensor x = waves({1, 9, 10, 11});
  for (const auto& [type, params] : all) {
    CAPTURE(std::string(type));
    const Json p = with(params, {{"prob", 1.0}, {"keys", {"image", "other"}}});
    std::set<double> seen;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const Sample out = drive(type, p, {twins(x)}, at_index(i)).at(0);
      CHECK(at::equal(out.tensor("image"), out.tensor("other")));
      CHECK(at::equal(out.tensor("image"),
                      drive(type, p, {twins(x)}, at_index(i)).at(0).tensor("image")));
      seen.insert(
          (out.tensor("image").to(at::kDouble) *
           at::arange(out.tensor("image").numel(), at::kDouble).view_as(out.tensor("image")))
              .sum()
              .item<double>());
    }
    CHECK(seen.size() >= (std::string(type) == "rand_axis_flip" ? 2 : 11));
  }
  CHECK(at::equal(x, waves({1, 9, 10, 11})));  // never written to
}

TEST_CASE("random transforms are done as often as prob says") {
  const at::Tensor x = waves({1, 6, 6, 6});
  for (const auto& [type, params] : all) {
    CAPTURE(std::string(type));
    const auto sample = std::make_shared<const Sample>(sample_of("image", x));
    int done = 0;
    Driver node(type, with(params, {{"prob", 0.3}, {"keys", "image"}}));
    for (std::uint64_t i = 0; i < 400; ++i)
      done += node.fire_ports({{sample}}, at_index(i)).outs.at(0).sample != sample;
    CHECK(done > 0.3 * 400 - 4 * std::sqrt(400 * 0.3 * 0.7));
    CHECK(done < 0.3 * 400 + 4 * std::sqrt(400 * 0.3 * 0.7));
    Driver never(type, with(params, {{"prob", 0.0}, {"keys", "image"}}));
    CHECK(never.fire_ports({{sample}}, at_index(0)).outs.at(0).sample == sample);
  }
}

TEST_CASE("zooms and angles fill their ranges and stay within") {
  const at::Tensor x = waves({1, 4, 4, 4});
  const auto range = [&](const char* type, const Json& params, std::size_t which) {
    double low = 1e9, high = -1e9;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const double v = drawn(type, params, x, i).at(which);
      low = std::min(low, v), high = std::max(high, v);
    }
    return std::pair(low, high);
  };
  const auto zoom = range("rand_zoom", {{"min_zoom", 0.8}, {"max_zoom", 1.2}}, 2);
  CHECK(zoom.first >= 0.8);
  CHECK(zoom.first < 0.81);
  CHECK(zoom.second <= 1.2);
  CHECK(zoom.second > 1.19);
  const Json angles = {{"range_x", {0.1, 0.3}}, {"range_z", 0.5}, {"mode", "bilinear"}};
  const auto about_x = range("rand_rotate", angles, 0), about_z = range("rand_rotate", angles, 2);
  CHECK(about_x.first >= 0.1);
  CHECK(about_x.second <= 0.3);
  CHECK(about_x.second - about_x.first > 0.19);
  CHECK(about_z.first < -0.48);
  CHECK(about_z.first >= -0.5);
  CHECK(about_z.second > 0.48);
  CHECK(range("rand_rotate", angles, 1) == std::pair(0.0, 0.0));
}

TEST_CASE("one zoom is for all axes, two are for the plane and for z") {
  const at::Tensor x = waves({1, 4, 4, 4});
  const auto one = drawn("rand_zoom", {{"min_zoom", 0.8}, {"max_zoom", 1.2}}, x, 5);
  CHECK(one[0] == one[1]);
  CHECK(one[0] == one[2]);
  const auto two = drawn("rand_zoom", {{"min_zoom", {0.8, 0.8}}, {"max_zoom", {1.2, 1.2}}}, x, 5);
  CHECK(two[0] == two[1]);
  CHECK(two[0] != two[2]);
}

TEST_CASE("an axis flip is a flip of one axis, and each gets its turn") {
  const at::Tensor x = waves({1, 4, 5, 6});
  std::set<std::int64_t> axes;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto y = drive("rand_axis_flip", {{"prob", 1.0}, {"keys", "image"}},
                         {sample_of("image", x)}, at_index(i));
    int found = 0;
    for (std::int64_t d = 1; d < 4; ++d)
      if (at::equal(y.at(0).tensor("image"), x.flip({d}))) axes.insert(d), ++found;
    CHECK(found == 1);
  }
  CHECK(axes.size() == 3);
}

TEST_CASE("a histogram shift keeps the order and the range of intensities") {
  const at::Tensor x = at::linspace(-3, 5, 1000).view({1, 10, 10, 10});
  for (std::uint64_t i = 0; i < 20; ++i) {
    const at::Tensor y =
        drive("rand_histogram_shift", {{"prob", 1.0}, {"num_control_points", {3, 12}}},
              {sample_of("image", x)}, at_index(i))
            .at(0)
            .tensor("image")
            .flatten();
    CHECK(y[0].item<float>() == doctest::Approx(-3));
    CHECK(y[999].item<float>() == doctest::Approx(5));
    CHECK((y.diff() > -1e-5).all().item<bool>());
    CHECK(y.sub(x.flatten()).abs().max().item<double>() > 0.01);
  }
  const at::Tensor flat = at::full({1, 2, 2, 2}, 7.0f);
  CHECK(at::equal(drive("rand_histogram_shift", {{"prob", 1.0}}, {sample_of("image", flat)})
                      .at(0)
                      .tensor("image"),
                  flat));
}

TEST_CASE("holes have the drawn number and sizes and lie everywhere") {
  const at::Tensor x = at::full({2, 6, 6, 6}, -1.0f);
  const Json params = {{"prob", 1.0},           {"holes", 1},     {"spatial_size", {2, 2, 1}},
                       {"max_spatial_size", 3}, {"max_holes", 2}, {"fill_value", {5.0, 6.0}}};
  at::Tensor often = at::zeros({6, 6, 6});
  std::set<std::int64_t> volumes;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const at::Tensor y = drive("rand_coarse_dropout", params, {sample_of("image", x)}, at_index(i))
                             .at(0)
                             .tensor("image");
    const at::Tensor filled = y.ne(-1);
    CHECK(at::equal(filled[0], filled[1]));
    CHECK((y.masked_select(filled) >= 5).all().item<bool>());
    CHECK((y.masked_select(filled) <= 6).all().item<bool>());
    CHECK(y.masked_select(filled).std().item<double>() > 0.05);
    often += filled[0];
    volumes.insert(filled[0].sum().item<std::int64_t>());
  }
  CHECK((often > 0).all().item<bool>());
  CHECK(*volumes.begin() == 4);
  CHECK(*volumes.rbegin() <= 54);
  CHECK(*volumes.rbegin() > 27);
}

TEST_CASE("a dropout without a value fills with the image's own range") {
  const at::Tensor x = at::linspace(2, 3, 512).view({1, 8, 8, 8});
  const at::Tensor y =
      drive("rand_coarse_dropout",
            {{"prob", 1.0}, {"holes", 1}, {"spatial_size", 4}, {"dropout_holes", false}},
            {sample_of("image", x)})
          .at(0)
          .tensor("image");
  CHECK(y.eq(x).sum().item<std::int64_t>() == 64);
  CHECK(y.min().item<float>() >= 2);
  CHECK(y.max().item<float>() <= 3);
}

TEST_CASE("a dropout leaves whole numbers outside of its holes that float32 does not hold") {
  const std::int64_t big = (std::int64_t{1} << 24) + 1;
  for (const bool holes : {true, false}) {
    const Json params = {{"prob", 1.0},
                         {"holes", 1},
                         {"spatial_size", 2},
                         {"fill_value", 3},
                         {"dropout_holes", holes}};
    const at::Tensor x = at::full({1, 6, 6}, big, at::kInt);
    const at::Tensor y =
        drive("rand_coarse_dropout", params, {sample_of("image", x)}).at(0).tensor("image");
    CHECK(y.eq(x).sum().item<std::int64_t>() == (holes ? 32 : 4));
    CHECK(y.eq(3).sum().item<std::int64_t>() == (holes ? 4 : 32));
  }
}

TEST_CASE("colour jitter keeps colours in their range and stays within its factors") {
  const at::Tensor gray = at::full({3, 4, 4}, 0.4f);
  double low = 1, high = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const at::Tensor y =
        drive("rand_color_jitter", {{"brightness", 0.5}}, {sample_of("image", gray)}, at_index(i))
            .at(0)
            .tensor("image");
    low = std::min(low, y.min().item<double>()), high = std::max(high, y.max().item<double>());
  }
  CHECK(low >= 0.2 - 1e-6);
  CHECK(low < 0.21);
  CHECK(high <= 0.6 + 1e-6);
  CHECK(high > 0.59);
  CHECK_THROWS_AS(
      drive("rand_color_jitter", {{"hue", 0.1}}, {sample_of("image", at::zeros({2, 4, 4}))}),
      DataError);
}

TEST_CASE("colour jitter as jobs is the host's, of pictures and of gray ones") {
  const Json all = {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.6}, {"hue", 0.3}};
  for (const std::int64_t channels : {3, 1})
    for (std::uint64_t i = 0; i < 50; ++i) {
      const Sample picture = sample_of("image", waves({channels, 20, 17}).abs().clamp(0, 1));
      const at::Tensor host =
          drive("rand_color_jitter", all, {picture}, at_index(i)).at(0).tensor("image");
      host_plays_device(true);
      const at::Tensor job =
          drive("rand_color_jitter", all, {picture}, at_index(i)).at(0).tensor("image");
      host_plays_device(false);
      CHECK((host - job).abs().max().item<float>() < 5e-6f);
    }
}

TEST_CASE("a distorted axis never runs backwards and has no voxel left over") {
  for (std::int64_t n : {5, 7, 13, 30, 64})
    for (const auto& steps : {std::vector<double>{1, 1, 1, 1, 1, 1}, {0.7, 1.3, 1, 0.8, 1.2, 1}}) {
      const auto at = distorted_axis(n, steps);
      CHECK(at.front() == 0);
      for (std::size_t i = 1; i < at.size(); ++i) CHECK(at[i] >= at[i - 1]);
    }
  CHECK_THROWS_AS(distorted_axis(3, {1, 1, 1, 1, 1}), DataError);
}

TEST_CASE("crops from a list of voxels are the crops that looking for them gives") {
  const at::Tensor label = waves({1, 9, 8, 7}).gt(0.4).to(at::kByte);
  Sample in = sample_of("label", label);
  in.set("image", sample_of("image", waves({1, 9, 8, 7})).at("image"));
  const Json crop = {{"spatial_size", 4}, {"num_samples", 6}, {"pos", 1}, {"neg", 2}};
  for (const Json& more : {Json::object(), Json{{"image_key", "image"}}}) {
    const Sample listed = drive("fg_bg_to_indices", more, {in}).at(0);
    const auto a = drive("rand_crop_by_pos_neg_label", with(crop, more), {in}, at_index(3));
    const auto b = drive("rand_crop_by_pos_neg_label",
                         with(crop, {{"fg_indices_key", "label_fg_indices"},
                                     {"bg_indices_key", "label_bg_indices"}}),
                         {listed}, at_index(3));
    REQUIRE(b.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(at::equal(a[i].tensor("image"), b[i].tensor("image")));
      CHECK(at::equal(a[i].tensor("label"), b[i].tensor("label")));
      CHECK_FALSE(b[i].has("label_fg_indices"));
    }
  }
}

TEST_CASE("a list of voxels of another volume is refused") {
  Sample in = sample_of("label", at::ones({1, 9, 8, 7}).to(at::kByte));
  Sample listed = drive("fg_bg_to_indices", Json::object(), {in}).at(0);
  listed.set("label", sample_of("label", at::ones({1, 2, 2, 2}).to(at::kByte)).at("label"));
  CHECK_THROWS_AS(drive("rand_crop_by_pos_neg_label",
                        {{"keys", "label"},
                         {"spatial_size", 2},
                         {"num_samples", 9},
                         {"fg_indices_key", "label_fg_indices"},
                         {"bg_indices_key", "label_bg_indices"}},
                        {listed}),
                  DataError);
}

TEST_CASE("of components of one size the last stays, and as many as asked for") {
  at::Tensor x = at::zeros({1, 6, 6}, at::kByte);
  for (int i : {0, 2, 4}) x[0][i].slice(0, 0, 2).fill_(1);
  x[0][5][5] = 1;  // touches nothing by its sides
  const auto kept = [&](const Json& params) {
    return drive("keep_largest_connected_component", with(params, {{"keys", "label"}}),
                 {sample_of("label", x)})
        .at(0)
        .tensor("label")
        .sum(at::IntArrayRef({0, 2}))
        .to(at::kInt);
  };
  CHECK(at::equal(kept({}), at::tensor({0, 0, 0, 0, 2, 0}, at::kInt)));
  CHECK(at::equal(kept({{"num_components", 2}}), at::tensor({0, 0, 2, 0, 2, 0}, at::kInt)));
  CHECK(at::equal(kept({{"num_components", 9}}), x.sum(at::IntArrayRef({0, 2})).to(at::kInt)));
}

TEST_CASE("rand_zoom gives a field one type, whether it is drawn or not") {
  Sample sample;
  sample.name = "a";
  for (const char* key : {"image", "label", "mask"})
    sample.set(key,
               Field(at::arange(120).to(at::kByte).view({1, 6, 5, 4}), std::make_shared<Meta>()));
  for (const double prob : {0.0, 1.0}) {
    Driver d("rand_zoom", {{"prob", prob},
                           {"keys", {"image", "label", "mask"}},
                           {"mode", {"area", "bilinear", "nearest"}}});
    const Sample out = d.fire({sample}).samples().at(0);
    CHECK((out.tensor("image").scalar_type() == at::kFloat));
    CHECK((out.tensor("label").scalar_type() == at::kFloat));
    CHECK((out.tensor("mask").scalar_type() == at::kByte));
  }
}
