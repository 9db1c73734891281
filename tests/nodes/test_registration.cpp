// Registration: displacement fields against MONAI 1.6.1 (tests/golden/warp.json), and pairs.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "golden.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

at::Tensor wave(const std::vector<std::int64_t>& shape, double speed, double size = 1) {
  return (at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * speed) * size)
      .to(at::kFloat)
      .view(shape);
}

// [axes, ...] of a linear map: u(x) = (matrix - 1) x.
at::Tensor linear(const std::vector<std::vector<double>>& matrix, std::int64_t n) {
  const auto axes = static_cast<std::int64_t>(matrix.size());
  std::vector<at::Tensor> components;
  for (std::int64_t c = 0; c < axes; ++c) {
    at::Tensor u = at::zeros(std::vector<std::int64_t>(matrix.size(), n), at::kDouble);
    for (std::int64_t a = 0; a < axes; ++a) {
      std::vector<std::int64_t> shape(matrix.size(), 1);
      shape[a] = n;
      u = u + at::arange(n, at::kDouble).view(shape) * (matrix[c][a] - (a == c ? 1 : 0));
    }
    components.push_back(u);
  }
  return at::stack(components);
}

}  // namespace

TEST_CASE("warp and dvf2ddf are MONAI's, of batches and of single samples") {
  const Json all = golden("warp.json");
  CHECK(all["cases"].size() == 10);
  for (const Json& c : all["cases"]) {
    INFO(c["type"], c["extents"].dump());
    const auto extents = c["extents"].get<std::vector<std::int64_t>>();
    std::vector<std::int64_t> shape{2, 2};
    shape.insert(shape.end(), extents.begin(), extents.end());
    Sample sample = sample_of("image", wave(shape, 0.7));
    shape[1] = std::ssize(extents);
    sample.set("ddf", Field(wave(shape, 1.9, 1.6), sample.at("image").meta));
    const bool warps = c["type"] == "warp";
    Json params = {{"output_key", "out"}};
    if (warps)
      params.update({{"mode", c["mode"]}, {"padding_mode", c["padding_mode"]}});
    else
      params.update({{"key", "ddf"}, {"num_steps", c["num_steps"]}});
    const auto run = [&](const Sample& s) {
      return Driver(c["type"], params).fire({s}).samples().at(0).tensor("out");
    };
    const at::Tensor got = run(sample);
    const at::Tensor want =
        at::tensor(c["want"].get<std::vector<double>>(), at::kDouble).to(at::kFloat).view_as(got);
    CHECK((got - want).abs().max().item<double>() < 2e-6);
    // As many members as a field of one more axis would have axes.
    if (extents.size() < 3) {
      const auto repeated = [&](const char* key) {
        std::vector<at::Tensor> all(extents.size() + 1, sample.tensor(key)[1]);
        return at::stack(all);
      };
      Sample many = sample_of("image", repeated("image"));
      many.set("ddf", Field(repeated("ddf"), many.at("image").meta));
      CHECK(at::equal(run(many)[0], got[1]));
    }
    Sample one = sample_of("image", sample.tensor("image")[1]);
    one.set("ddf", Field(sample.tensor("ddf")[1], one.at("image").meta));
    CHECK(at::equal(run(one), got[1]));
  }
}

TEST_CASE("warp rounds an image of whole numbers") {
  for (const Json& extents : {Json{9, 8}, Json{9, 8, 7}}) {
    auto shape = extents.get<std::vector<std::int64_t>>();
    const std::int64_t axes = std::ssize(shape);
    shape.insert(shape.begin(), {1, 1});
    Sample s = sample_of("image", at::full(shape, 3, at::kByte));
    shape[1] = axes;
    s.set("ddf", Field(wave(shape, 1.9, 1.6), s.at("image").meta));
    for (const char* mode : {"bilinear", "nearest"}) {
      const at::Tensor out =
          Driver("warp", {{"mode", mode}}).fire({s}).samples().at(0).tensor("image");
      CHECK((out.scalar_type() == at::kByte));
      CHECK(out.eq(3).all().item<bool>());
    }
  }
}

TEST_CASE("warp says which fields do not fit") {
  const auto said = [](at::Tensor image, at::Tensor ddf) {
    Sample s = sample_of("image", std::move(image));
    s.set("ddf", Field(std::move(ddf), s.at("image").meta));
    try {
      (void)Driver("warp").fire({s});
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(said(at::zeros({1, 1, 4, 4}), at::zeros({1, 2, 4, 5})) ==
        "\"image\" [1, 1, 4, 4] and \"ddf\" [1, 2, 4, 5] differ in members or extents");
  CHECK(said(at::zeros({1, 1, 4, 4}), at::zeros({1, 3, 4, 4})) ==
        "\"ddf\" [1, 3, 4, 4] is no field of displacements [N, axes, ...] or [axes, ...]: one "
        "channel an axis");
  CHECK(said(at::zeros({1, 4, 4}), at::zeros({1, 2, 4, 4})).starts_with("an image [1, 4, 4] has"));
}

TEST_CASE("pair names both samples' fields, and decollate takes a batch of pairs apart") {
  Sample a = sample_of("image", at::full({1, 2, 2}, 1)),
         b = sample_of("image", at::full({1, 3, 3}, 2));
  a.name = "a";
  b.name = "b";
  Driver pair("pair");
  const Sample both = pair.gather({a, b}).samples().at(0);
  CHECK(both.name == "a-b");
  CHECK(at::equal(both.tensor("moving_image"), a.tensor("image")));
  CHECK(at::equal(both.tensor("fixed_image"), b.tensor("image")));
  CHECK(both.fields().size() == 2);
  CHECK_THROWS_WITH_AS(Driver("pair", {{"prefixes", {"a_", "a_"}}}),
                       doctest::Contains("prefixes has \"a_\" twice"), Error);

  Sample other = both;
  other.name = "c-d";
  Sample batch = Driver("batch", {{"size", 2}}).gather({both, other}).samples().at(0);
  batch.set("loss", Field(at::scalar_tensor(3.0), std::make_shared<const Meta>()));
  const auto apart = Driver("decollate").fire({batch}).samples();
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].name == "a-b");
  CHECK(apart[1].name == "c-d");
  CHECK(at::equal(apart[1].tensor("fixed_image"), b.tensor("image")));
  CHECK(apart[1].at("fixed_image").meta.size() == 1);
  CHECK(apart[1].tensor("loss").item<double>() == 3);
}

TEST_CASE("jacobian_metric finds what a linear map stretches, and what folds") {
  const auto measured = [](const at::Tensor& ddf) {
    Driver node("jacobian_metric");
    (void)node.fire({sample_of("ddf", ddf)});
    std::map<std::string, double> all;
    for (const auto& [name, value] : node.flush()) all[name] = value;
    return all;
  };
  for (const auto& matrix :
       {std::vector<std::vector<double>>{{1.2, 0.1}, {-0.3, 0.9}},
        std::vector<std::vector<double>>{{1.1, 0.2, 0}, {0.1, 0.8, -0.2}, {0.3, 0, 1.3}}}) {
    auto m = measured(linear(matrix, 5));
    CHECK(m["folding"] == 0);
    CHECK(m["std_log"] < 1e-9);  // the same everywhere
  }
  // The determinant itself, by how many of two halves fold: x is mirrored beyond the middle.
  at::Tensor half = linear({{1, 0}, {0, 1}}, 12);
  half[0].slice(0, 6) = at::linspace(0, -12, 6).view({6, 1});
  auto m = measured(half.unsqueeze(0));
  CHECK(m["folding"] == 0.5);
  CHECK(measured(linear({{-1, 0}, {0, 1}}, 4))["folding"] == 1);
  CHECK(measured(linear({{2, 0, 0}, {0, -1, 0}, {0, 0, -1}}, 4))["folding"] == 0);
  CHECK_THROWS_AS(measured(at::zeros({3, 4, 4})), DataError);
  CHECK_THROWS_WITH_AS(measured(at::full({2, 4, 4}, NAN)),
                       "\"ddf\" has displacements that are NaN or infinite", DataError);
  // As many members as a field of one more axis would have axes.
  const at::Tensor mirrored = linear({{-1, 0}, {0, 1}}, 4), flat = at::zeros_like(mirrored);
  CHECK(measured(at::stack({mirrored, flat, flat}))["folding"] == doctest::Approx(1.0 / 3));

  // std_log of a stretch that grows: determinants 1 + 2 c x along the first axis.
  const double c = 0.05;
  at::Tensor grown = at::zeros({2, 9, 9}, at::kDouble);
  grown[0] = (at::arange(9, at::kDouble).square() * c).view({9, 1}).expand({9, 9});
  const at::Tensor logs = (at::arange(1, 8, at::kDouble) * 2 * c + 1).log();
  CHECK(measured(grown)["std_log"] == doctest::Approx(logs.std(false).item<double>()));

  // Two parts of an epoch are the whole.
  Driver whole("jacobian_metric"), one("jacobian_metric"), two("jacobian_metric");
  const auto other = linear({{-1, 0}, {0, 1}}, 9);
  (void)whole.fire({sample_of("ddf", grown)}, at_index(0));
  (void)whole.fire({sample_of("ddf", other)}, at_index(1));
  (void)one.fire({sample_of("ddf", grown)}, at_index(0));
  (void)two.fire({sample_of("ddf", other)}, at_index(1));
  State part;
  two.node().save(part);
  one.node().merge(part);
  CHECK(one.flush() == whole.flush());
}

TEST_CASE("landmarks follow a field, and tre_loss and tre_metric measure how far they are off") {
  // Everything moves by (1, -2); points between voxels too.
  at::Tensor ddf = at::zeros({1, 2, 8, 8});
  ddf[0][0].fill_(1);
  ddf[0][1].fill_(-2);
  ddf.requires_grad_();
  const at::Tensor points = at::tensor({3.F, 4.F, 2.5F, 6.25F, -1.F, -1.F}).view({1, 3, 2}),
                   truth = at::tensor({4.F, 2.F, 3.5F, 1.25F, -1.F, -1.F}).view({1, 3, 2});
  Sample s = sample_of("ddf", ddf);
  s.set("points", Field(points, s.at("ddf").meta));
  s.set("moving_points", Field(truth, s.at("ddf").meta));
  s = Driver("warp_points").fire({s}).samples().at(0);
  CHECK((s.tensor("warped_points").slice(1, 0, 2) -
         at::tensor({4.F, 2.F, 3.5F, 4.25F}).view({1, 2, 2}))
            .abs()
            .max()
            .item<double>() < 1e-6);
  // Distances 0 and 3 voxels of 2 mm; the third row is none.
  const Json spacing{{"spacing", {5, 2}}};
  const at::Tensor loss = Driver("tre_loss", spacing).fire({s}).samples().at(0).tensor("loss");
  CHECK(loss.item<double>() == doctest::Approx(3));
  loss.backward();
  CHECK(ddf.grad().isfinite().all().item<bool>());
  CHECK(ddf.grad()[0][1].sum().item<double>() ==
        doctest::Approx(1));  // 2 mm a voxel, of two points
  Driver metric("tre_metric", spacing);
  (void)metric.fire({s});
  CHECK(metric.flush().at(0).second == doctest::Approx(3));
  // A member without landmarks adds nothing to the loss, and is no case of the metric.
  const at::Tensor two = s.tensor("warped_points").detach().expand({2, 3, 2}).clone();
  Sample pair = sample_of("warped_points", two.requires_grad_());
  pair.set("moving_points", Field(at::cat({truth, at::full_like(truth, -1)}), s.at("ddf").meta));
  const at::Tensor half = Driver("tre_loss", spacing).fire({pair}).samples().at(0).tensor("loss");
  CHECK(half.item<double>() == doctest::Approx(1.5));
  half.backward();
  CHECK(two.grad()[0].abs().sum().item<double>() > 0);
  CHECK(two.grad()[1].abs().max().item<double>() == 0);
  (void)metric.fire({pair});
  CHECK(metric.flush().at(0).second == doctest::Approx(3));
  s.set("moving_points", Field(truth.slice(1, 0, 2), s.at("ddf").meta));
  CHECK_THROWS_AS((void)Driver("tre_loss").fire({s}), DataError);
  // What check goes by is what the node reads.
  const Spec& spec = *Registry::global().catalogue().find("tre_loss");
  CHECK(spec.find_param("key")->fallback == Json::array({"warped_points"}));
  CHECK(spec.find_param("label_key")->fallback == "moving_points");
}

TEST_CASE("points are read from text and follow their image through its transforms") {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& text) {
    std::ofstream(folder.path / "p.csv") << text;
    Sample s;
    auto meta = std::make_shared<Meta>();
    meta->path = (folder.path / "p.csv").string();
    s.set("points", Field(at::Tensor(), meta));
    try {
      const Sample out = Driver("load_points").fire({s}).samples().at(0);
      return c10::str(out.tensor("points").sizes()) + " " +
             std::to_string(out.tensor("points").sum().item<double>()).substr(0, 4);
    } catch (const DataError& e) {
      return std::string(e.what()).substr(folder.path.string().size() + 1);
    }
  };
  CHECK(said("x,y,z\n1,2,3\n4, 5, 6.5\n") == "[2, 3] 21.5");
  CHECK(said("1 2\r\n\r\n3\t4\r\n") == "[2, 2] 10.0");
  CHECK(said("1,2,3\n4,5\n") == "p.csv:2: 2 numbers; the rows before have 3");
  CHECK(said("1,2,3\n4,nan,5\n") == "p.csv:2: \"nan\" is no finite number");
  CHECK(said("x,y,z\n") == "p.csv: no row of numbers");
  // A first line of numbers is a point, as spreadsheets write it too.
  CHECK(said("\xef\xbb\xbf"
             "1,2,3\n4,5,6\n") == "[2, 3] 21.0");
  CHECK(said("+1,2,3\n4,5,6\n") == "[2, 3] 21.0");
  CHECK(said("nan,2,3\n4,5,6\n") == "p.csv:1: \"nan\" is no finite number");
  CHECK(said("1,2,3,4\n") == "p.csv: rows of 4 numbers; points have 2 or 3 axes");

  // 2 x 3 x 4 mm, origin (10, 20, 30): file's voxel (1, 2, 3) is (12, 26, 42) mm.
  Affine affine = identity_affine;
  affine[0] = 2, affine[5] = 3, affine[10] = 4, affine[3] = 10, affine[7] = 20, affine[11] = 30;
  Sample s = sample_of("image", at::rand({1, 6, 6, 6}), affine);
  s.set("points", Field(at::tensor({1.F, 2.F, 3.F}).view({1, 3}), std::make_shared<const Meta>()));
  s = drive("apply_transform_to_points", {{"invert_affine", false}}, {s}).at(0);
  CHECK(at::allclose(s.tensor("points"), at::tensor({12.F, 26.F, 42.F}).view({1, 3})));
  s = drive("flip", {{"keys", "image"}, {"spatial_axis", 0}}, {s}).at(0);
  s = drive("spatial_crop", {{"keys", "image"}, {"roi_start", {1, 1, 1}}, {"roi_end", {6, 6, 6}}},
            {s})
          .at(0);
  s = drive("apply_transform_to_points", Json::object(), {s}).at(0);
  CHECK(at::allclose(s.tensor("points"), at::tensor({3.F, 1.F, 2.F}).view({1, 3})));
  // ITK's millimetres: x and y the other way round.
  s.set("points",
        Field(at::tensor({-12.F, -26.F, 42.F}).view({1, 3}), std::make_shared<const Meta>()));
  s = drive("apply_transform_to_points", {{"affine_lps_to_ras", true}}, {s}).at(0);
  CHECK(at::allclose(s.tensor("points"), at::tensor({3.F, 1.F, 2.F}).view({1, 3})));

  // A picture has no affine: points follow it from the voxels that it was loaded with.
  Sample picture;
  picture.set("image", Field(at::rand({1, 4, 6}), std::make_shared<const Meta>()));
  picture.set("points", Field(at::tensor({1.F, 2.F}).view({1, 2}), std::make_shared<const Meta>()));
  picture = drive("apply_transform_to_points", {{"invert_affine", false}}, {picture}).at(0);
  picture = drive("flip", {{"keys", "image"}, {"spatial_axis", 0}}, {picture}).at(0);
  picture = drive("apply_transform_to_points", Json::object(), {picture}).at(0);
  CHECK(at::allclose(picture.tensor("points"), at::tensor({2.F, 2.F}).view({1, 2})));

  // MONAI 1.6.1's values of a sheared affine.
  const double want[2][2][3] = {{{13, 26.6, 42}, {-13, -26.6, 42}},
                                {{-3.1125, -5.55, -6.75}, {-3.77916667, -6.88333333, -6.75}}};
  for (const bool invert : {false, true})
    for (const bool lps : {false, true}) {
      Sample t;
      t.set("points",
            Field(at::tensor({1.F, 2.F, 3.F}).view({1, 3}), std::make_shared<const Meta>()));
      const Json params{{"affine", {2, 0.5, 0, 10, 0, 3, 0.2, 20, 0, 0, 4, 30, 0, 0, 0, 1}},
                        {"invert_affine", invert},
                        {"affine_lps_to_ras", lps}};
      t = drive("apply_transform_to_points", params, {t}).at(0);
      for (int a = 0; a < 3; ++a)
        CHECK(t.tensor("points")[0][a].item<double>() ==
              doctest::Approx(want[invert][lps][a]).epsilon(1e-5));
    }
}
