// The spatial transforms as nodes: MONAI 1.6.1's results (tests/golden/spatial.json), geometry
// that stays with the world, draws that follow the stamp, and refusals that say the numbers.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/image/affine.h"
#include "nodes/fields.h"
#include "tests/golden/spatial.h"
#include "tests/nodes/drive.h"
#include "tests/text.h"

using namespace sluice;

namespace {

const Affine oblique{0.2, -0.6, 0.85, -20, -1.27, -0.4, 0.08, 30, -0.2, 1.97, 0.28, 10, 0, 0, 0, 1};

// Image and label of one shape and affine.
Sample pair(const at::Tensor& image, const at::Tensor& label, const Affine& affine = oblique) {
  Sample s = sample_of("image", image, affine);
  s.set("label", sample_of("label", label, affine).at("label"));
  return s;
}

Sample pair() {
  const at::Tensor v = made_volume();
  return pair(v, (v > 0.2).to(at::kByte));
}

// One field through a node, held against a golden case.
void check_node(const std::string& type, const nlohmann::ordered_json& c, const at::Tensor& input) {
  Json params = c["params"];
  params["keys"] = "image";
  const Affine affine = c["affine"].get<Affine>();
  const auto out = drive(type, params, {sample_of("image", input, affine)});
  REQUIRE(out.size() == 1);
  check_golden(out[0].tensor("image"), c);
  const std::string name = c.dump().substr(0, 120);
  INFO(name);
  CHECK(near(out[0].at("image").geometry().affine, c["out_affine"].get<Affine>(), 1e-6));
  CHECK(out[0].tensor("image").is_contiguous());
}

std::string refusal(const std::string& type, const Json& params, const Sample& sample) {
  try {
    drive(type, params, {sample});
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

// The world position of the brightest voxel.
Vec3 where_brightest(const Field& f) {
  const auto n = f.tensor.sizes();
  const auto i = f.tensor[0].argmax().item<std::int64_t>();
  return map_point(f.geometry().affine,
                   {double(i / (n[2] * n[3])), double(i / n[3] % n[2]), double(i % n[3])});
}

double distance(const Vec3& a, const Vec3& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

}  // namespace

TEST_CASE("orientation is MONAI's, for straight, permuted and oblique volumes") {
  for (const auto& c : spatial_cases("orientation")) check_node("orientation", c, made_volume());
}

TEST_CASE("orientation there and back gives the same bits and the same affine") {
  const Sample in = pair();
  const auto there = drive("orientation", {{"axcodes", "SAL"}}, {in});
  const auto back =
      drive("orientation", {{"axcodes", axcodes(orientation_of(oblique))}}, {there[0]});
  for (const char* key : {"image", "label"}) {
    CHECK(at::equal(back[0].tensor(key), in.tensor(key)));
    CHECK(near(back[0].at(key).geometry().affine, oblique, 1e-10));
    CHECK(back[0].at(key).geometry().history.size() == 2);
  }
  CHECK(there[0].at("image").geometry().history[0].shape_before ==
        std::vector<std::int64_t>{13, 9, 11});
}

TEST_CASE("a volume that is oriented already is not copied") {
  const Sample in = pair(made_volume(), made_volume(), identity_affine);
  const auto out = drive("orientation", Json::object(), {in});
  CHECK(out[0].tensor("image").const_data_ptr() == in.tensor("image").const_data_ptr());
  CHECK(out[0].at("image").geometry().history.empty());
}

TEST_CASE("spacing is MONAI's, in every mode, padding and extent") {
  for (const auto& c : spatial_cases("spacing")) check_node("spacing", c, made_volume());
}

TEST_CASE("spacing keeps what is bright where it was in the world") {
  at::Tensor v = at::zeros({1, 30, 32, 28});
  for (int x = 0; x < 30; ++x)
    for (int y = 0; y < 32; ++y)
      for (int z = 0; z < 28; ++z)
        v[0][x][y][z] =
            std::exp(-0.05 * (std::pow(x - 17, 2) + std::pow(y - 9, 2) + std::pow(z - 14, 2)));
  const Sample in = sample_of("image", v, oblique);
  const Vec3 before = where_brightest(in.at("image"));
  for (bool diagonal : {false, true}) {
    const auto out = drive(
        "spacing", {{"keys", "image"}, {"pixdim", {0.7, 0.9, 1.1}}, {"diagonal", diagonal}}, {in});
    CHECK(distance(where_brightest(out[0].at("image")), before) < 0.8);  // half a new diagonal
    const Vec3 size = voxel_spacing(out[0].at("image").geometry().affine);
    CHECK(size[0] == doctest::Approx(0.7));
    CHECK(size[2] == doctest::Approx(1.1));
  }
}

TEST_CASE("spacing takes images linearly and labels to the nearest, whose type stays") {
  const auto out = drive("spacing", {{"pixdim", {1.1, 1.0, 2.2}}}, {pair()});
  const bool real = out[0].tensor("image").scalar_type() == at::kFloat;
  CHECK(real);
  const at::Tensor label = out[0].tensor("label");
  const bool byte = label.scalar_type() == at::kByte;
  CHECK(byte);
  CHECK((label.eq(0) | label.eq(1)).all().item<bool>());
  CHECK(label.sizes() == out[0].tensor("image").sizes());
}

TEST_CASE("data without geometry has voxels of 1 mm") {
  Sample in;
  in.set("image", Field(made_volume(), std::make_shared<const Meta>()));
  const auto out = drive("spacing", {{"keys", "image"}, {"pixdim", 0.5}}, {in});
  CHECK(out[0].tensor("image").sizes() == at::IntArrayRef({2, 25, 17, 21}));
}

TEST_CASE("pads and crops to a size are MONAI's") {
  for (const auto& c : spatial_cases("resize_with_pad_or_crop"))
    check_node("resize_with_pad_or_crop", c, made_volume());
  for (const auto& c : spatial_cases("spatial_pad")) check_node("spatial_pad", c, made_volume());
}

TEST_CASE("the foreground crop is MONAI's, with margin and divisible sizes") {
  const at::Tensor hill = (made_volume() - 1.2).clamp_min(0);
  for (const auto& c : spatial_cases("crop_foreground")) check_node("crop_foreground", c, hill);
}

TEST_CASE("the foreground of one key crops all keys") {
  at::Tensor image = at::zeros({1, 10, 11, 12});
  image.narrow(1, 2, 3).narrow(2, 4, 5).narrow(3, 1, 6).fill_(1);
  const at::Tensor label = at::arange(10 * 11 * 12).view({1, 10, 11, 12});
  const auto out = drive("crop_foreground", Json::object(), {pair(image, label)});
  CHECK(at::equal(out[0].tensor("label"), label.narrow(1, 2, 3).narrow(2, 4, 5).narrow(3, 1, 6)));
  const auto& done = out[0].at("label").geometry().history.back();
  CHECK(done.values == std::vector<double>{2, 4, 1, 3, 5, 6});
}

TEST_CASE("the corners of the foreground's box are fields where they are asked for") {
  at::Tensor image = at::zeros({1, 8, 9});
  image[0].narrow(0, 1, 3).narrow(1, 4, 4).fill_(1);
  const Json params = {
      {"keys", "image"}, {"margin", 2}, {"start_coord_key", "first"}, {"end_coord_key", "behind"}};
  const Sample out = drive("crop_foreground", params, {sample_of("image", image)}).at(0);
  CHECK(out.tensor("image").sizes() == at::IntArrayRef({1, 7, 8}));
  CHECK(out.tensor("first").equal(at::tensor({-1, 2}, at::kLong)));
  CHECK(out.tensor("behind").equal(at::tensor({6, 10}, at::kLong)));
  CHECK_FALSE(drive("crop_foreground", {{"keys", "image"}}, {sample_of("image", image)})
                  .at(0)
                  .has("foreground_start_coord"));
}

TEST_CASE("an empty foreground, a missing key and a wrong rank are data errors with the numbers") {
  const Sample dark = pair(at::zeros({1, 4, 5, 6}), at::zeros({1, 4, 5, 6}));
  CHECK(contains(refusal("crop_foreground", Json::object(), dark), "[1, 4, 5, 6]"));
  CHECK(contains(refusal("orientation", {{"keys", "pred"}}, dark), "\"pred\""));
  CHECK(refusal("orientation", {{"keys", "pred"}, {"allow_missing_keys", true}}, dark) == "");
  const Sample flat = sample_of("image", at::zeros({4, 5, 6}));
  const Sample line = sample_of("image", at::zeros({4, 5}));
  CHECK(contains(refusal("spacing", {{"keys", "image"}, {"pixdim", 1}}, line), "[4, 5]"));
  CHECK(contains(refusal("spatial_pad", {{"keys", "image"}, {"spatial_size", {1, 2, 3}}}, flat),
                 "3 sizes"));
}

TEST_CASE("random crops have their size, lie inside, and are one for all keys") {
  const at::Tensor ids = at::arange(13 * 9 * 11, at::kInt).view({1, 13, 9, 11});
  const Sample in = pair(ids.to(at::kFloat), ids);
  std::set<int> starts;
  for (int i = 0; i < 30; ++i) {
    const auto out = drive("rand_spatial_crop", {{"roi_size", {5, 0, 20}}}, {in}, at_index(i));
    CHECK(out[0].tensor("image").sizes() == at::IntArrayRef({1, 5, 9, 11}));
    CHECK(at::equal(out[0].tensor("image").to(at::kInt), out[0].tensor("label")));
    const auto& meta = out[0].at("image").geometry();
    const int start = int(meta.history.back().values[0]);
    CHECK(out[0].tensor("label").flatten()[0].item<int>() == start * 99);
    CHECK(near(meta.affine, multiply(oblique, translation({double(start), 0, 0})), 1e-12));
    starts.insert(start);
  }
  CHECK(*starts.begin() == 0);
  CHECK(*starts.rbegin() == 8);
  CHECK(starts.size() > 6);
}

TEST_CASE(
    "random crop sizes lie between roi_size and max_roi_size, and without a place, the centre") {
  std::set<std::int64_t> sizes;
  for (int i = 0; i < 30; ++i) {
    const auto out =
        drive("rand_spatial_crop", {{"roi_size", 4}, {"max_roi_size", 7}, {"random_size", true}},
              {pair()}, at_index(i));
    sizes.insert(out[0].tensor("image").size(1));
  }
  CHECK(sizes == std::set<std::int64_t>{4, 5, 6, 7});
  const auto centre =
      drive("rand_spatial_crop", {{"roi_size", 4}, {"random_center", false}}, {pair()});
  CHECK(centre[0].at("image").geometry().history.back().values ==
        std::vector<double>{4, 2, 3, 4, 4, 4});
  CHECK(contains(refusal("rand_spatial_crop",
                         {{"roi_size", 9}, {"max_roi_size", 7}, {"random_size", true}}, pair()),
                 "larger"));
}

TEST_CASE("patches are centred on foreground in the asked share, and several in a firing") {
  at::Tensor label = at::zeros({1, 20, 20, 20}, at::kByte);
  label.narrow(1, 8, 4).narrow(2, 8, 4).narrow(3, 8, 4).fill_(2);
  const Sample in = pair(label.to(at::kFloat) - 0.5, label);
  for (const auto& [pos, neg, least, most] :
       {std::tuple{1.0, 0.0, 400, 400}, {0.0, 1.0, 0, 0}, {1.0, 1.0, 150, 250}}) {
    int on = 0;
    for (int i = 0; i < 100; ++i) {
      const auto out = drive("rand_crop_by_pos_neg_label",
                             {{"spatial_size", 5}, {"pos", pos}, {"neg", neg}, {"num_samples", 4}},
                             {in}, at_index(i));
      REQUIRE(out.size() == 4);
      for (const auto& patch : out) {
        CHECK(patch.tensor("image").sizes() == at::IntArrayRef({1, 5, 5, 5}));
        on += patch.tensor("label")[0][2][2][2].item<int>() == 2;
      }
    }
    CHECK(on >= least);
    CHECK(on <= most);
  }
}

TEST_CASE("background is only where the image is above its threshold") {
  const at::Tensor label = at::zeros({1, 20, 20, 20}, at::kByte);
  at::Tensor image = at::zeros({1, 20, 20, 20});
  image[0][10][11][12] = 3;
  const auto out = drive("rand_crop_by_pos_neg_label",
                         {{"spatial_size", 4}, {"image_key", "image"}, {"image_threshold", 2}},
                         {pair(image, label)});
  CHECK(out[0].at("image").geometry().history.back().values ==
        std::vector<double>{8, 9, 10, 4, 4, 4});
  CHECK(contains(refusal("rand_crop_by_pos_neg_label",
                         {{"spatial_size", 4}, {"image_key", "image"}, {"image_threshold", 5}},
                         pair(image, label)),
                 "[20, 20, 20]"));
}

TEST_CASE("a patch larger than the image is refused, or cut where smaller is allowed") {
  CHECK(contains(refusal("rand_crop_by_pos_neg_label", {{"spatial_size", {5, 5, 12}}}, pair()),
                 "[5, 5, 12]"));
  const auto out = drive("rand_crop_by_pos_neg_label",
                         {{"spatial_size", {5, 5, 12}}, {"allow_smaller", true}}, {pair()});
  CHECK(out[0].tensor("image").sizes() == at::IntArrayRef({2, 5, 5, 11}));
}

TEST_CASE("flips and quarter turns move all keys alike and keep the world where it is") {
  for (const char* type : {"rand_flip", "rand_rotate90"}) {
    const Sample in = pair();
    const auto out = drive(type, {{"prob", 1.0}}, {in});
    CHECK(at::equal((out[0].tensor("image") > 0.2).to(at::kByte), out[0].tensor("label")));
    CHECK_FALSE(at::equal(out[0].tensor("image"), in.tensor("image")));
    CHECK(distance(where_brightest(out[0].at("image")), where_brightest(in.at("image"))) < 1e-9);
    const auto none = drive(type, {{"prob", 0.0}}, {in});
    CHECK(at::equal(none[0].tensor("image"), in.tensor("image")));
  }
}

TEST_CASE("a plane that an axis was taken from stays where it lies in the world") {
  const at::Tensor image = at::arange(24, at::kFloat).view({1, 2, 3, 4});
  const auto world = [](const Affine& a, const std::array<double, 3>& at) {
    std::array<double, 3> w{};
    for (std::size_t r = 0; r < 3; ++r)
      w[r] = a[4 * r] * at[0] + a[4 * r + 1] * at[1] + a[4 * r + 2] * at[2] + a[4 * r + 3];
    return w;
  };
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    CAPTURE(axis);
    std::array<double, 3> in_volume{1, 1, 1};
    const auto check = [&](const Field& plane, std::int64_t k) {
      CHECK(at::equal(plane.tensor, image.select(axis + 1, k)));
      in_volume[static_cast<std::size_t>(axis)] = static_cast<double>(k);
      const auto here = world(plane.geometry().affine, {1, 1, 0}),
                 there = world(oblique, in_volume);
      for (std::size_t r = 0; r < 3; ++r) CHECK(here[r] == doctest::Approx(there[r]));
    };
    const Sample parts =
        drive("split_dim",
              {{"dim", axis + 1},
               {"keepdim", false},
               {"output_postfixes", Json::parse(axis == 0   ? R"(["0", "1"])"
                                                : axis == 1 ? R"(["0", "1", "2"])"
                                                            : R"(["0", "1", "2", "3"])")}},
              {sample_of("image", image, oblique)})
            .at(0);
    for (std::int64_t k = 0; k < image.size(axis + 1); ++k)
      check(parts.at("image_" + std::to_string(k)), k);
    const at::Tensor thin = image.narrow(axis + 1, 0, 1).contiguous();
    check(drive("squeeze_dim", {{"dim", axis + 1}}, {sample_of("image", thin, oblique)})
              .at(0)
              .at("image"),
          0);
  }
}

TEST_CASE("a flip names its axes, also from the end and in 2-D") {
  const at::Tensor v = made_volume();
  const auto last = drive("rand_flip", {{"prob", 1}, {"spatial_axis", -1}, {"keys", "image"}},
                          {sample_of("image", v)});
  CHECK(at::equal(last[0].tensor("image"), v.flip(3)));
  const at::Tensor flat = made_volume(2, true);
  const auto both =
      drive("rand_flip", {{"prob", 1}, {"keys", "image"}}, {sample_of("image", flat)});
  CHECK(at::equal(both[0].tensor("image"), flat.flip({1, 2})));
  CHECK(contains(refusal("rand_flip", {{"prob", 1}, {"spatial_axis", 2}, {"keys", "image"}},
                         sample_of("image", flat)),
                 "axis 2"));
}

TEST_CASE("a random affine resamples image and label alike, and its affine says where to") {
  at::Tensor v = at::zeros({1, 24, 24, 24});
  v.narrow(1, 10, 5).narrow(2, 9, 5).narrow(3, 11, 5).fill_(1);
  v[0][12][11][13] = 2;
  const Sample in = pair(v, (v > 0.5).to(at::kByte));
  const Json params{{"prob", 1},
                    {"rotate_range", {0.3, 0.3, 0.3}},
                    {"translate_range", 2},
                    {"scale_range", {{-0.1, 0.1}}},
                    {"padding_mode", "zeros"}};
  const auto out = drive("rand_affine", params, {in});
  CHECK(distance(where_brightest(out[0].at("image")), where_brightest(in.at("image"))) < 1.6);
  const at::Tensor agree = (out[0].tensor("image") > 0.5).eq(out[0].tensor("label") > 0);
  CHECK(agree.to(at::kFloat).mean().item<double>() > 0.99);
  const auto larger = drive("rand_affine", {{"prob", 0}, {"spatial_size", {30, 0, 20}}}, {in});
  CHECK(larger[0].tensor("image").sizes() == at::IntArrayRef({1, 30, 24, 20}));
  CHECK(distance(where_brightest(larger[0].at("image")), where_brightest(in.at("image"))) < 1e-9);
}

TEST_CASE("a volume turned while its voxels are cubes keeps right angles on any grid") {
  const at::Tensor ramp = at::arange(16, at::kFloat).view({1, 16, 1, 1}).expand({1, 16, 16, 16});
  const Sample in = pair(ramp.contiguous(), ramp.contiguous(), identity_affine);
  const Json turn{{"prob", 1},
                  {"sigma_range", {5, 7}},
                  {"magnitude_range", {1, 2}},
                  {"rotate_range", 0.3},
                  {"scale_range", 0.2}};
  const auto warped = drive("rand_elastic", turn, {in});
  const auto out =
      drive("rand_spacing", {{"min_pixdim", {0.6, 1.1, 1.6}}, {"max_pixdim", 2.0}}, {warped[0]});
  const Affine& a = out[0].at("image").geometry().affine;
  CHECK(std::abs(a[6]) > 1e-3);  // it is turned
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      double dot = 0;
      for (std::size_t r = 0; r < 3; ++r) dot += a[4 * r + i] * a[4 * r + j];
      CHECK(dot == doctest::Approx(0).epsilon(1e-6));
    }
}

TEST_CASE("an elastic deformation moves voxels smoothly and is one for all keys") {
  const at::Tensor ramp = at::arange(32, at::kFloat).view({1, 32, 1, 1}).expand({1, 32, 32, 32});
  const Sample in = pair(ramp.contiguous(), ramp.contiguous(), identity_affine);
  const Json params{{"prob", 1},
                    {"sigma_range", {5, 7}},
                    {"magnitude_range", {50, 150}},
                    {"mode", "bilinear"},
                    {"padding_mode", "border"}};
  const auto out = drive("rand_elastic", params, {in});
  CHECK(at::equal(out[0].tensor("image"), out[0].tensor("label")));
  const at::Tensor moved = (out[0].tensor("image") - ramp).abs();
  CHECK(moved.max().item<double>() > 0.2);
  CHECK(moved.max().item<double>() < 10);
  CHECK(out[0].tensor("image").diff(1, 2).abs().max().item<double>() < 0.8);
  CHECK_THROWS(drive("rand_elastic", {{"sigma_range", 3}, {"magnitude_range", {1, 2}}}, {in}));
}

TEST_CASE("random transforms follow seed and stamp, and nothing else") {
  const Json small{{"spatial_size", 2}};
  const Json always{{"prob", 1}, {"rotate_range", {1, 1, 1}}};
  const Json elastic{{"prob", 1}, {"sigma_range", {2, 3}}, {"magnitude_range", {20, 30}}};
  for (const auto& [type, params] :
       std::vector<std::pair<std::string, Json>>{{"rand_spatial_crop", {{"roi_size", 4}}},
                                                 {"rand_crop_by_pos_neg_label", small},
                                                 {"rand_affine", always},
                                                 {"rand_elastic", elastic}}) {
    INFO(type);
    const auto image = [&, type = type, params = params](int index, int seed) {
      return drive(type, params, {pair()}, at_index(index), seed)[0].tensor("image");
    };
    CHECK(at::equal(image(5, 1), image(5, 1)));
    CHECK_FALSE(at::equal(image(5, 1), image(6, 1)));
    CHECK_FALSE(at::equal(image(5, 1), image(5, 2)));
  }
}

TEST_CASE("what came in is never written to") {
  const Sample in = pair();
  const at::Tensor before = in.tensor("image").clone();
  drive("rand_flip", {{"prob", 1}}, {in});
  drive("rand_affine", {{"prob", 1}, {"rotate_range", 1}}, {in});
  drive("spacing", {{"pixdim", 1}}, {in});
  drive("resize_with_pad_or_crop", {{"spatial_size", 8}}, {in});
  CHECK(at::equal(in.tensor("image"), before));
  CHECK(in.at("image").geometry().history.empty());
}
