// nnU-Net's augmentation: fixed parameters give batchgeneratorsv2's values, and draws are spread as
// nnU-Net spreads them.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden.h"

using namespace sluice;

namespace {

using Sizes = std::vector<std::int64_t>;

// As make_nnunet_augment.py makes them, of 2 or 3 axes.
at::Tensor made(const Sizes& shape, int channels,
                const std::function<double(const double*, int)>& f, at::ScalarType type) {
  Sizes all = shape;
  all.insert(all.begin(), channels);
  at::Tensor x = at::empty(all, at::kDouble);
  double* p = x.mutable_data_ptr<double>();
  const std::int64_t each = x.numel() / channels;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double at[3] = {0, 0, 0};
    std::int64_t rest = i % each;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at[d] = static_cast<double>(rest % shape[d]);
    p[i] = f(at, static_cast<int>(i / each));
  }
  return x.to(type);
}
at::Tensor image(const Sizes& shape) {
  return made(
      shape, 2,
      [](const double* a, int c) {
        return std::sin(1 + 0.7 * a[0] + 1.3 * a[1] + 0.4 * a[2] + 2 * c) + 0.1 * a[0];
      },
      at::kFloat);
}
at::Tensor label(const Sizes& shape) {
  return made(
      shape, 1,
      [](const double* a, int) { return std::fmod(std::floor((a[0] + 2 * a[1] + a[2]) / 4), 3); },
      at::kShort);
}

Sample sample(const Sizes& shape) {
  Sample s = sample_of("image", image(shape));
  s.set("label", sample_of("label", label(shape)).at("label"));
  return s;
}

void flatten(const Json& j, std::vector<double>& values) {
  if (j.is_array())
    for (const Json& e : j) flatten(e, values);
  else
    values.push_back(j.get<double>());
}

double worst(const at::Tensor& found, const Json& wanted) {
  std::vector<double> values;
  flatten(wanted, values);
  REQUIRE(found.numel() == std::ssize(values));
  return (found.flatten().to(at::kDouble) - at::tensor(values, at::kDouble))
      .abs()
      .max()
      .item<double>();
}

const Sizes shape{7, 9, 8};

// What a crop of `params` starts at, many times.
std::vector<std::vector<double>> starts(const Json& params, const Sample& in, int n) {
  Driver node("rand_crop_foreground", params);
  std::vector<std::vector<double>> all;
  for (int i = 0; i < n; ++i)
    all.push_back(node.fire({in}, at_index(static_cast<std::uint64_t>(i)))
                      .outs.at(0)
                      .sample->at("image")
                      .geometry()
                      .history.back()
                      .values);
  return all;
}

}  // namespace

TEST_CASE("nnU-Net's intensity transforms give batchgeneratorsv2's values") {
  for (const Json& g : golden("nnunet_augment.json")["intensity"]) {
    Json params = g["params"];
    params["prob"] = 1;
    INFO(g["node"].get<std::string>(), " ", params.dump());
    const Sample out = drive(g["node"], params, {sample(shape)}).at(0);
    CHECK(worst(out.tensor("image"), g["image"]) < 6e-5);
    CHECK(at::equal(out.tensor("label"), label(shape)));
    params["prob"] = 0;
    CHECK(at::equal(drive(g["node"], params, {sample(shape)}).at(0).tensor("image"), image(shape)));
  }
}

TEST_CASE("rand_rotate_scale gives batchgeneratorsv2's images and labels") {
  for (const Json& g : golden("nnunet_augment.json")["spatial"]) {
    const Sizes patch = g["patch"];
    Json params{{"spatial_size", patch}, {"prob_rotate", 0}, {"prob_scale", 0}};
    if (!g["angle"].is_null()) {
      params["prob_rotate"] = 1;
      params["rotate"] = {g["angle"], g["angle"]};
    }
    if (!g["scale"].is_null()) {
      params["prob_scale"] = 1;
      params["scale"] = {g["scale"], g["scale"]};
    }
    INFO(params.dump());
    const Sizes from(shape.end() - static_cast<std::ptrdiff_t>(patch.size()), shape.end());
    const Sample out = drive("rand_rotate_scale", params, {sample(from)}).at(0);
    CHECK(worst(out.tensor("image"), g["image"]) < 6e-5);
    CHECK(worst(out.tensor("label"), g["label"]) == 0);
  }
}

TEST_CASE("rand_rotate_scale with dummy_2d turns each slice alike and none through another") {
  const Json params{
      {"spatial_size", {7, 6, 6}}, {"prob_rotate", 1}, {"rotate", {0.3, 0.3}}, {"prob_scale", 0}};
  Json thick = params, flat = params;
  thick["dummy_2d"] = true;
  flat["spatial_size"] = {6, 6};
  const Sample in = sample(shape), out = drive("rand_rotate_scale", thick, {in}).at(0);
  for (std::int64_t i = 0; i < 7; ++i) {
    Sample slice = sample_of("image", in.tensor("image").select(1, i).contiguous());
    slice.set("label", sample_of("l", in.tensor("label").select(1, i).contiguous()).at("l"));
    const Sample turned = drive("rand_rotate_scale", flat, {slice}).at(0);
    CHECK(at::allclose(turned.tensor("image"), out.tensor("image").select(1, i), 0, 1e-5));
    CHECK(at::equal(turned.tensor("label"), out.tensor("label").select(1, i)));
  }
}

TEST_CASE("factors about 1 lie below as often as above, and in the range") {
  Driver node("rand_multiplicative_brightness", {{"prob", 1}, {"multiplier_range", {0.75, 1.5}}});
  int below = 0;
  std::vector<double> above;
  const Sample one = sample_of("image", at::ones({1, 1, 1, 1}));
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double f =
        node.fire({one}, at_index(i)).outs.at(0).sample->tensor("image").item<double>();
    CHECK(f >= 0.75);
    CHECK(f <= 1.5);
    f < 1 ? void(++below) : above.push_back(f);
  }
  CHECK(std::abs(below - 2000) < 4 * std::sqrt(1000));  // 4 standard deviations
  double mean = 0;
  for (const double f : above) mean += f / static_cast<double>(above.size());
  CHECK(std::abs(mean - 1.25) < 4 * 0.5 / std::sqrt(12.0 * static_cast<double>(above.size())));
}

TEST_CASE("rand_crop_foreground puts the last of a batch about foreground, and no other") {
  at::Tensor y = at::zeros({1, 20, 20, 20}, at::kShort);
  y[0][13][4][17] = 1;
  y[0][2][18][9] = 2;
  Sample in = sample_of("image", at::arange(8000, at::kFloat).view({1, 20, 20, 20}));
  in.set("label", sample_of("label", y).at("label"));
  const Json params{
      {"spatial_size", {8, 8, 8}}, {"final_size", {6, 6, 6}}, {"batch", 3}, {"num_classes", 3}};
  const std::vector<double> first{9, 0, 13}, second{-1, 14, 5};
  std::map<std::vector<double>, int> found;
  std::set<double> free;
  const auto all = starts(params, in, 900);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<double> start(all[i].begin(), all[i].begin() + 3);
    if (i % 3 == 2)
      ++found[start];
    else
      for (const double s : start) {
        free.insert(s);
        CHECK(s >= -1);
        CHECK(s <= 13);  // 20 + 1 - 8
      }
  }
  // Class by class alike; a start is not below the lower bound, and may be above the upper.
  CHECK(found.size() == 2);
  CHECK(found[first] + found[second] == 300);
  CHECK(std::abs(found[first] - 150) < 4 * std::sqrt(75));
  CHECK(free.size() == 15);
}

TEST_CASE("rand_crop_foreground fills with 0 and its outside, and falls back where nothing is") {
  Sample in = sample_of("image", at::ones({1, 4, 4, 4}));
  in.set("label", sample_of("label", at::zeros({1, 4, 4, 4}, at::kShort)).at("label"));
  const Json params{
      {"spatial_size", {8, 8, 8}}, {"batch", 1}, {"oversample", 1}, {"num_classes", 2}};
  const Sample out = drive("rand_crop_foreground", params, {in}).at(0);
  CHECK(out.tensor("image").sum().item<float>() == 64);
  CHECK(out.tensor("label").eq(-1).sum().item<int>() == 512 - 64);
  Json slices = params;
  slices["spatial_size"] = {1, 4, 4};
  CHECK(drive("rand_crop_foreground", slices, {in}).at(0).tensor("image").size(1) == 1);
  slices["spatial_size"] = {4, 4};
  CHECK_THROWS_AS(drive("rand_crop_foreground", slices, {in}), DataError);
}

TEST_CASE("rand_crop_foreground with an ignore label keeps to what is annotated") {
  at::Tensor y = at::full({1, 9, 9, 9}, 2, at::kShort);
  y[0][4][4][4] = 0;
  y[0][1][7][4] = 1;
  Sample in = sample_of("image", at::ones({1, 9, 9, 9}));
  in.set("label", sample_of("label", y).at("label"));
  const Json params{
      {"spatial_size", {3, 3, 3}}, {"batch", 2}, {"num_classes", 3}, {"ignore_label", 2}};
  const auto all = starts(params, in, 100);
  std::set<std::vector<double>> free, forced;
  for (std::size_t i = 0; i < all.size(); ++i)
    (i % 2 ? forced : free).insert({all[i].begin(), all[i].begin() + 3});
  CHECK(forced == std::set<std::vector<double>>{{0, 6, 3}});
  CHECK(free == std::set<std::vector<double>>{{0, 6, 3}, {3, 3, 3}});
}

// nnU-Net's get_bbox: of a case without foreground any annotated voxel, and what crop_nonzero marks
// by -1 is annotated.
TEST_CASE(
    "rand_crop_foreground of no foreground keeps to what is annotated, where nothing is too") {
  at::Tensor y = at::full({1, 9, 9, 9}, 2, at::kShort);
  y[0][4][4][4] = 0;
  y[0][1][7][4] = -1;
  Sample in = sample_of("image", at::ones({1, 9, 9, 9}));
  in.set("label", sample_of("label", y).at("label"));
  const Json params{
      {"spatial_size", {3, 3, 3}}, {"batch", 2}, {"num_classes", 3}, {"ignore_label", 2}};
  const std::set<std::vector<double>> both{{0, 6, 3}, {3, 3, 3}};
  const auto found = [&](const Json& with, const Sample& sample) {
    const auto all = starts(with, sample, 100);
    std::set<std::vector<double>> free, forced;
    for (std::size_t i = 0; i < all.size(); ++i)
      (i % 2 ? forced : free).insert({all[i].begin(), all[i].begin() + 3});
    return std::pair{free, forced};
  };
  CHECK(found(params, in) == std::pair{both, both});
  Json counted = params;
  counted["indices_key"] = "label_cls_indices";
  CHECK(found(counted, drive("classes_to_indices", {{"num_classes", 3}}, {in}).at(0)) ==
        std::pair{both, both});
  // Where all is ignored, patches are anywhere.
  Sample none = in;
  none.set("label", sample_of("label", at::full({1, 9, 9, 9}, 2, at::kShort)).at("label"));
  CHECK(found(params, none).second.size() > 10);
}

TEST_CASE("rand_crop_foreground draws regions as one class each") {
  at::Tensor y = at::zeros({1, 9, 9, 9}, at::kShort);
  y[0][4][4][4] = 1;
  y[0][1][7][4] = 2;
  Sample in = sample_of("image", at::ones({1, 9, 9, 9}));
  in.set("label", sample_of("label", y).at("label"));
  const Json params{{"spatial_size", {1, 1, 1}},
                    {"batch", 1},
                    {"oversample", 1},
                    {"num_classes", 3},
                    {"regions", {{1, 2}, {2}}}};
  int both = 0;
  for (const auto& start : starts(params, in, 400)) both += start[0] == 1;
  CHECK(std::abs(both - 300) < 4 * std::sqrt(75));  // 1/2 + 1/2 of 1/2
}

namespace {

// Each of three labels as a channel.
at::Tensor one_hot() {
  const at::Tensor y = label({9, 8, 11});
  return at::cat({y.eq(0), y.eq(1), y.eq(2)}).to(at::kByte);
}

Sample changed(const char* type, Json params, std::uint64_t key) {
  params["keys"] = {"map"};
  Driver node(type, params);
  return *node.fire({sample_of("map", one_hot())}, at_index(key)).outs.at(0).sample;
}

}  // namespace

TEST_CASE("rand_binary_operator gives batchgeneratorsv2's labels") {
  for (const Json& c : golden("nnunet_augment.json")["binary"]) {
    CAPTURE(c["operator"].dump());
    CAPTURE(c["radius"].dump());
    const Json params{{"prob", 1},
                      {"label_prob", 0.5},
                      {"operators", {c["operator"]}},
                      {"radius", {c["radius"], c["radius"]}}};
    // Draws that change the second label alone.
    int found = 0;
    for (std::uint64_t key = 0; key < 64; ++key) {
      const at::Tensor map = changed("rand_binary_operator", params, key).tensor("map");
      found += worst(map, c["map"]) == 0;
    }
    CHECK(found > 0);
  }
}

TEST_CASE(
    "rand_binary_operator leaves a voxel to one label, draws each operator, and changes often "
    "enough") {
  int same = 0;
  for (std::uint64_t key = 0; key < 400; ++key) {
    const at::Tensor map = changed("rand_binary_operator", {{"radius", {1, 3}}}, key).tensor("map");
    CHECK(map.sum(0).max().item<int>() <= 1);
    same += at::equal(map, one_hot());
  }
  // 0.6 of samples are left alone, and of the others those whose labels all are: 1/8.
  CHECK(same > 220);
  CHECK(same < 340);
}

TEST_CASE("rand_remove_component takes one component of a label, and no large one") {
  at::Tensor map = at::zeros({2, 10, 10, 10}, at::kByte);
  map[0].slice(0, 0, 5).fill_(1);  // half of the patch
  map[0][8][8][8] = 1;
  map[1][2][2][2] = 1;
  map[1][5][5][5] = 1;
  map[1][6][6][6] = 1;  // a corner of the one before
  std::set<std::int64_t> sums0, sums1;
  for (std::uint64_t key = 0; key < 100; ++key) {
    Driver node("rand_remove_component", {{"keys", {"map"}}, {"prob", 1}});
    const Fired fired = node.fire({sample_of("map", map.clone())}, at_index(key));
    const at::Tensor after = fired.outs.at(0).sample->tensor("map");
    sums0.insert(after[0].sum().item<std::int64_t>());
    sums1.insert(after[1].sum().item<std::int64_t>());
  }
  CHECK(sums0 == std::set<std::int64_t>{500, 501});
  CHECK(sums1 == std::set<std::int64_t>{1, 2, 3});
}
