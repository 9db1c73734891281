// Landmarks: images of marks, what moves them, a network of slices, and how far points are.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <array>
#include <set>

#include "engine/base/error.h"
#include "engine/state/resource.h"
#include "tests/nodes/drive.h"

using namespace sluice;

namespace {

at::Tensor marked(const std::vector<std::array<std::int64_t, 3>>& marks,
                  std::vector<std::int64_t> size = {1, 9, 7}) {
  at::Tensor image = at::zeros(size, at::kInt);
  for (const auto& [x, y, value] : marks) image[0][x][y].fill_(value);
  return image;
}

// Says of each image its mean and its first voxel, [N, 2, 1].
struct Telling final : Network {
  at::Tensor weight = at::ones({1});
  Tensors forward(const Tensors& x, std::size_t) override {
    const at::Tensor flat = x[0].flatten(1);
    return {at::stack({flat.mean(1), flat.select(1, 0)}, 1).unsqueeze(2)};
  }
  Named parameters() const override { return {{"w", weight}}; }
  void initialise(std::uint64_t) override {}
};

}  // namespace

TEST_CASE("marks of landmarks become columns of coordinates, in the order of their labels") {
  const Json params = {{"labels", {10, 15, 200}}};
  const auto points = [&](const at::Tensor& image) {
    return drive("label_to_landmarks", params, {sample_of("label", image)})[0].tensor("label");
  };
  const at::Tensor found = points(marked({{2, 3, 15}, {8, 1, 10}}));
  CHECK(found.equal(at::tensor({8.F, 2.F, 0.F, 1.F, 3.F, 0.F}).view({2, 3})));
  at::Tensor volume = at::zeros({1, 3, 4, 5});
  volume[0][2][1][4].fill_(200);
  CHECK(points(volume).select(1, 2).equal(at::tensor({2.F, 1.F, 4.F})));
  try {
    points(marked({{2, 3, 11}}));
    FAIL("a mark that no label names");
  } catch (const DataError& e) {
    CHECK(std::string(e.what()).find("has the value 11 at [2, 3]; labels are [10, 15, 200]") !=
          std::string::npos);
  }
}

TEST_CASE("rand_lm_shift moves all keys by the same whole voxels, and zeros come in") {
  Sample in = sample_of("image", at::arange(1, 64, at::kFloat).view({1, 9, 7}));
  in.set("label", sample_of("label", marked({{4, 3, 5}})).at("label"));
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Sample out =
        drive("rand_lm_shift", {{"max_shift", 2}, {"prob", 1.0}}, {in}, at_index(i))[0];
    const at::Tensor at = out.tensor("label")[0].nonzero();
    REQUIRE(at.size(0) == 1);
    const std::int64_t x = at[0][0].item<std::int64_t>() - 4, y = at[0][1].item<std::int64_t>() - 3;
    CHECK(out.tensor("image")[0][4 + x][3 + y].item<float>() == 32);
    CHECK(out.tensor("image").eq(0).sum().item<std::int64_t>() ==
          63 - (9 - std::abs(x)) * (7 - std::abs(y)));
    seen.emplace(x, y);
  }
  CHECK(seen.size() == 16);  // -2 to 1 along both axes
  CHECK(seen.begin()->first == -2);
  CHECK(seen.rbegin()->first == 1);
}

TEST_CASE("rand_smooth_deform moves marks to where their voxels go, and loses none") {
  std::vector<std::array<std::int64_t, 3>> marks;
  for (std::int64_t k = 0; k < 10; ++k) marks.push_back({6 * k + 3, 60 - 6 * k, k + 1});
  Sample in = sample_of("image", at::zeros({1, 64, 64}));
  in.set("label", sample_of("label", marked(marks, {1, 64, 64})).at("label"));
  // Wide marks in the image, which linear sampling keeps.
  for (const auto& [x, y, value] : marks)
    in.tensor("image")[0]
        .narrow(0, std::max<std::int64_t>(x - 1, 0), 3)
        .narrow(1, y - 1, 3)
        .fill_(value);
  const Json params = {{"prob", 1.0},
                       {"rand_size", {4, 4}},
                       {"def_range", 0.12},
                       {"keys", "image"},
                       {"landmark_keys", "label"},
                       {"align_corners", true},
                       {"grid_mode", "nearest"},
                       {"field_mode", "bilinear"},
                       {"grid_align_corners", true}};
  std::int64_t met = 0, moved = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Sample out = drive("rand_smooth_deform", params, {in}, at_index(i))[0];
    const at::Tensor label = out.tensor("label")[0], where = label.nonzero();
    CHECK(where.size(0) == 10);
    for (std::int64_t m = 0; m < where.size(0); ++m) {
      const auto x = where[m][0].item<std::int64_t>(), y = where[m][1].item<std::int64_t>();
      const auto value = label[x][y].item<std::int64_t>();
      const at::Tensor around = out.tensor("image")[0]
                                    .slice(0, std::max<std::int64_t>(x - 2, 0), x + 3)
                                    .slice(1, std::max<std::int64_t>(y - 2, 0), y + 3);
      met += around.eq(static_cast<double>(value)).any().item<bool>();
      moved += x != marks[static_cast<std::size_t>(value - 1)][0];
    }
  }
  CHECK(met >= 48);
  CHECK(moved > 10);
}

TEST_CASE("rand_fourier_dropout keeps near frequencies and takes far ones away") {
  const Sample in = sample_of("image", at::rand({2, 32, 24}));
  const at::Tensor image = in.tensor("image");
  const auto dropped = [&](double low, double high) {
    return drive("rand_fourier_dropout", {{"prob", 1.0}, {"min_dist", low}, {"max_dist", high}},
                 {in})[0]
        .tensor("image");
  };
  CHECK(dropped(2, 2).allclose(image, 1e-4, 1e-5));  // nothing is farther than sqrt(2)
  const at::Tensor none = dropped(0, 0);             // the zero frequency is not at 0 of 32 numbers
  CHECK(none.abs().max().item<double>() < 1e-5);
  const at::Tensor some = dropped(0.1, 0.9);
  CHECK_FALSE(some.allclose(image, 1e-2, 1e-2));
  CHECK(some.flatten(1).std(1).lt(image.flatten(1).std(1)).all().item<bool>());
}

TEST_CASE("landmark_inferer shows a network each slice and stacks what it says") {
  const at::Tensor volume = at::rand({1, 4, 5, 3});
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<Telling>());
  for (const int size : {1, 2}) {
    for (const int axis : {0, 2}) {
      const Json params = {{"net", "net"}, {"spatial_dim", axis}, {"sw_batch_size", size}};
      Driver node("landmark_inferer", params, context);
      const at::Tensor out = node.fire({sample_of("image", volume)}).samples().at(0).tensor("pred");
      REQUIRE(out.sizes() == at::IntArrayRef{volume.size(axis + 1), 2, 1});
      for (std::int64_t i = 0; i < out.size(0); ++i) {
        const at::Tensor slice = volume.select(axis + 1, i);
        CHECK(out[i][0].item<float>() == doctest::Approx(slice.mean().item<float>()));
        CHECK(out[i][1].item<float>() == slice.flatten()[0].item<float>());
      }
    }
  }
  Driver last("landmark_inferer", {{"net", "net"}, {"spatial_dim", 2}, {"stack_dim", -1}}, context);
  CHECK(last.fire({sample_of("image", volume)}).samples().at(0).tensor("pred").sizes() ==
        at::IntArrayRef{2, 1, 3});
}

// Ignite 0.5.5: pairwise_distance of columns, with 1e-6 added to each difference.
TEST_CASE("pairwise_distance_metric is the mean distance of points, over points and cases") {
  Sample in = sample_of("pred", at::tensor({3.F, 1.F, 4.F, 1.F}).view({1, 2, 2}));
  in.set("label", sample_of("label", at::zeros({1, 2, 2})).at("label"));
  Driver node("pairwise_distance_metric", Json::object());
  node.fire({in});
  const auto found = node.flush();
  const auto mean = std::ranges::find(found, "mean", &std::pair<std::string, double>::first);
  REQUIRE(mean != found.end());
  CHECK(mean->second == doctest::Approx((5 + std::sqrt(2.0)) / 2));
}

// monai.apps.vista3d.transforms.VistaPostTransformd of the same numbers.
TEST_CASE("vista_post_transform gives the asked class of the greatest logit, 0 below all") {
  Sample in =
      sample_of("pred", at::tensor({-1.F, 2.F, 0.5F, 0.F, -3.F, 1.F, 3.F, -1.F}).view({2, 1, 4}));
  in.set("class_vector", sample_of("class_vector", at::tensor({14.F, 3.F})).at("class_vector"));
  const auto labels = [&](const Json& params) {
    return drive("vista_post_transform", params, {in})[0].tensor("pred").flatten();
  };
  CHECK(labels(Json::object()).equal(at::tensor({0.F, 14.F, 3.F, 0.F})));
  CHECK(labels({{"label_key", nullptr}}).equal(at::tensor({0.F, 1.F, 2.F, 0.F})));
  in.set("class_vector", sample_of("class_vector", at::tensor({14.F})).at("class_vector"));
  CHECK_THROWS_AS(labels(Json::object()), DataError);
}
