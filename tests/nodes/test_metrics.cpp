// Every metric against MONAI 1.6.1 (tests/golden/make_metrics.py): in one batch, case by case, over
// a checkpoint and in parts that are merged.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "nodes/metric/metric.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"
#include "tests/nodes/on_device.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

struct Pair {
  at::Tensor pred, label;  // batches
};

Pair boxes() {
  at::Tensor pred = at::zeros({3, 1, 12, 10, 8}), label = at::zeros({3, 1, 12, 10, 8});
  const auto fill = [](const at::Tensor& t, int n, std::vector<std::int64_t> from,
                       std::vector<std::int64_t> to, int value) {
    at::Tensor box = t[n][0];
    for (int d = 0; d < 3; ++d) box = box.slice(d, from[d], to[d]);
    box.fill_(value);
  };
  for (int n = 0; n < 3; ++n) {
    fill(label, n, {1, 2, 1}, {6, 7, 5}, 1);
    fill(pred, n, {2, 1, 1}, {8, 6 + n, 7}, 1);
    if (n == 0) fill(label, n, {7, 5, 2}, {12, 9, 8}, 2);
    if (n < 2) fill(pred, n, {8, 6, 3}, {11, 10, 8}, 2);
  }
  return {at::one_hot(pred.select(1, 0).to(at::kLong), 3).movedim(-1, 1).to(at::kFloat), label};
}

Pair scores() {
  const at::Tensor label =
      (at::arange(360) * 7).remainder(11).remainder(3).reshape({3, 1, 6, 5, 4}).clone();
  label[1].masked_fill_(label[1].eq(2), 0);
  return {at::arange(1080, at::kDouble).mul(1.3).sin().to(at::kFloat).reshape({3, 3, 6, 5, 4}),
          label};
}

Pair classes(std::int64_t n, std::int64_t of, const at::Tensor& truth) {
  return {(sines({n, of}, 1) * 6).round() / 6, truth};
}

// As make_metrics.py's DATA and CLASSES.
Pair inputs(const std::string& data) {
  if (data == "boxes") return boxes();
  if (data == "void") {
    Pair p = boxes();
    p.label.slice(2, 3, 7).slice(3, 3, 9).slice(4, 2, 6).fill_(255);
    return p;
  }
  if (data == "scores") return scores();
  if (data == "images") return {sines({3, 2, 5, 4, 3}, 1), sines({3, 2, 5, 4, 3}, 3)};
  if (data == "five") return classes(40, 5, at::arange(40) * 7 % 5);
  if (data == "lacking") return classes(30, 4, at::arange(30) * 5 % 3);
  if (data == "binary") return classes(20, 1, at::arange(20) * 7 % 2);
  if (data == "several")
    return {(sines({12, 3}, 1) * 6).round() / 6, sines({12, 3}, 5).gt(0).to(at::kFloat)};
  if (data == "panoptic") {
    const auto of = [](int first) {
      const at::Tensor x = at::arange(12).view({12, 1}), y = at::arange(10).view({1, 10});
      at::Tensor number = (x + first).floor_divide(4) * 3 + y.floor_divide(4) + 1;
      number = number.masked_fill((x + 2 * y).remainder(7).eq(0), 0);
      return at::stack({number, number.remainder(2) + 1}).to(at::kFloat);
    };
    return {at::stack({of(1), of(0), of(2)}), at::stack({of(0), of(0), of(0)})};
  }
  if (data == "features") return {sines({7, 3}, 1), sines({7, 3}, 4)};
  if (data == "fewer") return {sines({7, 3}, 1), sines({7, 3}, 4).slice(0, 0, 5)};
  if (data == "chances")
    return {sines({3, 2, 5, 4, 3}, 1, 0.5) + 0.5, sines({3, 2, 5, 4, 3}, 3).gt(0).to(at::kFloat)};
  if (data == "numbers") return {sines({5, 2}, 1), sines({5, 2}, 3)};
  if (data == "larger") {
    const at::Tensor image = sines({2, 1, 12, 10, 8}, 1);
    return {image, image + sines({2, 1, 12, 10, 8}, 4, 0.3)};
  }
  const at::Tensor i = at::arange(60), truth = i * 7 % 4;  // "found"
  const at::Tensor found = at::where(i % 3 == 0, (i * i).floor_divide(3) % 4, truth);
  return {at::one_hot(found, 4).to(at::kFloat), truth};
}

Sample pair_of(const Pair& in, std::int64_t from, std::int64_t to) {
  Sample s = sample_of("pred", in.pred.slice(0, from, to));
  s.set("label", Field(in.label.slice(0, from, to), s.at("pred").meta));
  return s;
}

// State as a checkpoint has it.
State saved(Driver& driver) {
  State state;
  driver.node().save(state);
  state.values = Json::parse(state.values.dump());
  return state;
}

void check_metrics(const std::vector<std::pair<std::string, double>>& got, const Json& expected,
                   double tolerance) {
  for (const auto& [name, value] : expected.items()) {
    CAPTURE(name);
    const auto found =
        std::find_if(got.begin(), got.end(), [&, key = name](auto& g) { return g.first == key; });
    REQUIRE(found != got.end());
    if (value.is_null())
      CHECK(std::isnan(found->second));
    else if (value == "inf")
      CHECK(std::isinf(found->second));
    else
      CHECK(found->second == doctest::Approx(value.get<double>()).epsilon(tolerance));
  }
}

// Equal, NaN to NaN.
void check_same(const std::vector<std::pair<std::string, double>>& a,
                const std::vector<std::pair<std::string, double>>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    CHECK((a[i].second == b[i].second || (std::isnan(a[i].second) && std::isnan(b[i].second))));
  }
}

}  // namespace

TEST_CASE("metrics equal MONAI's, by batch, case by case, over a checkpoint and in merged parts") {
  for (const std::string& type : node_types("metric")) {
    if (type == "running_mean" || type == "cumulative_average") continue;  // of a number
    if (type == "variance_metric" || type == "froc") continue;        // of one field, of points
    if (type == "lesion_froc") continue;                              // of slides: test_slides.cpp
    if (type == "jacobian_metric" || type == "tre_metric") continue;  // test_registration.cpp
    if (type == "patch_dice") continue;                // nnU-Net's: test_nnunet_train.cpp
    if (type == "coco_metric") continue;               // of boxes: test_detection.cpp
    if (type == "pairwise_distance_metric") continue;  // of points: test_landmarks.cpp
    for (const Json& c : golden_cases("metrics/" + type + ".json")) {
      CAPTURE(type);
      CAPTURE(c["data"].dump());
      CAPTURE(c["params"].dump());
      Pair in = inputs(c["data"]);
      in = {on_device(in.pred), on_device(in.label)};
      const std::int64_t n = in.pred.size(0), half = n / 2;
      Driver batch(type, c["params"]), single(type, c["params"]), resumed(type, c["params"]);
      Driver part(type, c["params"]), other(type, c["params"]), merged(type, c["params"]);
      batch.fire({pair_of(in, 0, n)});
      const auto got = batch.flush();
      check_metrics(got, c["metrics"], c.value("tolerance", 4e-7));

      for (std::int64_t i = 0; i < n; ++i) single.fire({pair_of(in, i, i + 1)});
      check_same(single.flush(), got);

      part.fire({pair_of(in, 0, half)});
      resumed.node().load(saved(part));
      resumed.fire({pair_of(in, half, n)});
      check_same(resumed.flush(), got);

      other.fire({pair_of(in, half, n)});
      merged.node().load(saved(part));
      dynamic_cast<RowMetric&>(merged.node()).merge(saved(other));
      check_same(merged.flush(), got);

      CHECK(part.flush().size() <= got.size());  // and each epoch begins anew
      part.fire({pair_of(in, 0, n)});
      check_same(part.flush(), got);
    }
  }
}

TEST_CASE("metrics refuse another number of classes and names for other classes in one way") {
  const Pair five = inputs("five"), four = inputs("lacking");
  for (const char* type : {"accuracy", "confusion_matrix", "rocauc"}) {
    CAPTURE(type);
    Driver node(type);
    node.fire({pair_of(five, 0, 3)});
    CHECK_THROWS_WITH_AS(node.fire({pair_of(four, 0, 3)}), "4 classes, unlike the samples before",
                         DataError);
    CHECK_THROWS_WITH_AS(Driver(type, {{"class_names", {"a", "b"}}}).fire({pair_of(five, 0, 3)}),
                         "class_names has 2 names for 5 classes", Error);
  }
  Driver dice("dice_metric");
  dice.fire({pair_of(boxes(), 0, 1)});
  const Pair two{boxes().pred.narrow(1, 0, 2), boxes().label.clamp_max(1)};
  CHECK_THROWS_WITH_AS(dice.fire({pair_of(two, 1, 2)}), "2 classes, unlike the samples before",
                       DataError);
  Driver named("dice_metric", {{"class_names", {"ground", "near", "far"}}});
  named.fire({pair_of(boxes(), 0, 1)});
  CHECK(named.flush()[2].first == "class_near");
}

TEST_CASE("of labels that may be true together counts are those of the classes, as MONAI's") {
  const Pair in{at::tensor({1.F, 0.F, 1.F, 1.F, 0.F, 1.F}).view({3, 2}),
                at::tensor({1, 0, 0, 1, 1, 1}).view({3, 2})};
  const auto metrics = [&](const char* type, Json params) {
    params["spatial_dims"] = 0;
    params["argmax"] = false;
    Driver node(type, params);
    node.fire({pair_of(in, 0, 3)});
    return node.flush();
  };
  const auto found = metrics("confusion_matrix_metric", {{"metric_name", "sensitivity"}});
  REQUIRE(found.size() == 3);
  for (const auto& [name, value] : {std::pair{"mean", 0.75}, {"class_0", 0.5}, {"class_1", 1.0}}) {
    const auto at = std::ranges::find(found, name, &std::pair<std::string, double>::first);
    REQUIRE(at != found.end());
    CHECK(at->second == doctest::Approx(value));
  }
  const auto f2 = metrics("f_beta_score", {{"beta", 2}, {"reduction", "mean_batch"}});
  REQUIRE(f2.size() == 2);
  CHECK(f2[0].second == doctest::Approx(0.5));
  CHECK(f2[1].second == doctest::Approx(1));
}

TEST_CASE("a metric of images says by which parameter vectors are none, and how numbers are") {
  const auto why = [](int axes, const Pair& in) {
    return message_of([&] {
      Driver("mae_metric", {{"spatial_dims", axes}}).fire({pair_of(in, 0, 3)});
    });
  };
  CHECK(why(3, inputs("numbers")) ==
        "field \"pred\" [3, 2] is neither a sample nor a batch of 3 spatial axes, as spatial_dims "
        "says");
  CHECK(why(0, {at::zeros({3, 1}), at::zeros({3})}) ==
        "the prediction [3, 1] and the label [1, 3] do not fit; csv_list gives a vector of one by "
        "\"groups\": {\"label\": [\"label\"]}");
  CHECK(why(0, {at::zeros({3, 1}), at::zeros({3, 2})}) ==
        "the prediction [3, 1] and the label [3, 2] do not fit");
}

TEST_CASE("names of cases stand in a metric's tensors, since JSON has a bound and UTF-8 alone") {
  const Json vectors{{"spatial_dims", 0}};
  Driver node("mse_metric", vectors), resumed("mse_metric", vectors);
  Sample sample = pair_of(inputs("numbers"), 0, 1);
  sample.name = "caf\xe9";
  node.fire({sample});
  CHECK(saved(node).tensors.contains("names"));
  resumed.node().load(saved(node));
  CHECK(resumed.flush() == node.flush());
}

TEST_CASE("cumulative_average is the mean of what is finite, over a checkpoint too") {
  const auto loss = [](double value) { return sample_of("loss", at::scalar_tensor(value)); };
  Driver node("cumulative_average"), resumed("cumulative_average");
  node.fire({loss(1)});
  node.fire({loss(INFINITY)});
  resumed.node().load(saved(node));
  for (Driver* driver : {&node, &resumed}) {
    driver->fire({loss(4)});
    CHECK(driver->flush() == std::vector<std::pair<std::string, double>>{{"mean", 2.5}});
  }
}

TEST_CASE("variance_metric has MONAI's variance over repetitions and channels") {
  const Sample s = sample_of("pred", sines({3, 2, 5, 4, 3}, 1));
  for (const Json& c : golden_cases("metrics/variance_metric.json")) {
    CAPTURE(c["params"].dump());
    Driver node("variance_metric", c["params"]);
    node.fire({s});
    check_metrics(node.flush(), c["metrics"], 1e-5);
  }
}

TEST_CASE("froc has MONAI's score of detected points in several images") {
  const auto image = [](int first) {
    at::Tensor mask = at::zeros({1, 8, 9}, at::kLong);
    mask.slice(1, 1, 3).slice(2, 1, 4).fill_(1);
    mask.slice(1, 4, 7).slice(2, 3, 5).fill_(2);
    mask.slice(1, 0, 2).slice(2, 6, 9).fill_(3);
    const at::Tensor i = at::arange(12) + first;
    Sample s = sample_of("pred", sines({12}, first, 0.5) + 0.5);
    s.set("label", Field(mask, s.at("pred").meta));
    s.set("coords", Field(at::stack({i * 5 % 8, i * 7 % 9}, 1), s.at("pred").meta));
    return s;
  };
  for (const Json& c : golden_cases("metrics/froc.json")) {
    CAPTURE(c["params"].dump());
    Driver node("froc", c["params"]), resumed("froc", c["params"]);
    node.fire({image(1)});
    resumed.node().load(saved(node));
    for (Driver* driver : {&node, &resumed}) {
      driver->fire({image(2)});
      driver->fire({image(5)});
      check_metrics(driver->flush(), c["metrics"], 1e-6);
    }
  }
}

TEST_CASE("scores that are NaN have no order and are refused") {
  const auto with = [](const char* type, Json params, Sample s) {
    CAPTURE(type);
    Driver node(type, std::move(params));
    s.name = "case";
    CHECK_THROWS_WITH_AS(node.fire({s}), "case: \"pred\" has scores that are NaN", DataError);
  };
  const at::Tensor scores = at::tensor({0.5, NAN, 0.25, 0.75}, at::kFloat);
  Sample classes = sample_of("pred", scores.view({4, 1}));
  classes.set("label", Field(at::tensor({0, 1, 1, 0}, at::kLong), classes.at("pred").meta));
  with("rocauc", {}, classes);
  with("average_precision_metric", {}, classes);
  Sample points = sample_of("pred", scores);
  points.set("label", Field(at::ones({1, 2, 2}, at::kLong), points.at("pred").meta));
  points.set("coords", Field(at::zeros({4, 2}, at::kLong), points.at("pred").meta));
  with("froc", {}, points);
  const at::Tensor boxes = at::tensor({0., 0., 1., 1.}).repeat({4, 1});
  Sample detected = sample_of("pred", scores);
  for (const char* key : {"pred_box", "box"})
    detected.set(key, Field(boxes, points.at("pred").meta));
  for (const char* key : {"pred_label", "label"})
    detected.set(key, Field(at::zeros({4}, at::kLong), points.at("pred").meta));
  with("coco_metric", {{"num_classes", 1}, {"score_key", "pred"}}, detected);
}

TEST_CASE("metrics of features say what a set lacks") {
  const auto said = [](const char* type, const at::Tensor& pred, const at::Tensor& label) {
    return message_of([&] {
      Driver node(type);
      node.fire({pair_of({pred, label}, 0, 9)});
      node.flush();
    });
  };
  const at::Tensor one = sines({1, 3}, 1), four = sines({4, 3}, 1), six = sines({6, 3}, 4);
  CHECK(said("mmd_metric", four, six) ==
        "\"pred\" and \"label\" have different numbers of samples, 4 and 6");
  for (const char* type : {"mmd_metric", "fid_metric"}) {
    CAPTURE(type);
    CHECK(said(type, one, one) == "\"pred\" has 1 sample in the epoch; needed are 2 at least");
    CHECK(said(type, four, sines({4, 2}, 1)) ==
          "\"pred\" [4, 3] and \"label\" [4, 2] are not [N, features] both");
    CHECK(said(type, four, at::full({4, 3}, NAN)) ==
          "\"label\" has features that are NaN or infinite");
    CHECK(std::isnan(Driver(type).flush().at(0).second));  // an epoch of no sample
  }
  CHECK(said("fid_metric", four, six.slice(0, 0, 0)) ==
        "\"label\" has 0 samples in the epoch; needed are 2 at least");
}

TEST_CASE("panoptic_quality_metric is by class where nothing else is asked for, as MONAI's") {
  const Pair in = inputs("panoptic");
  Driver node("panoptic_quality_metric", {{"num_classes", 2}, {"spatial_dims", 2}});
  node.fire({pair_of(in, 0, 3)});
  const auto got = node.flush();
  REQUIRE(got.size() == 2);
  CHECK(got[0].first == "class_1");
  CHECK(got[1].first == "class_2");
}

TEST_CASE("froc of very many points is no work of their square") {
  constexpr std::int64_t points = 200000;
  at::Tensor mask = at::zeros({1, 2, 2}, at::kLong), coords = at::ones({points + 1, 2}, at::kLong),
             probs = at::arange(points + 1, at::kDouble);
  mask[0][0][0] = 1;
  coords[points].zero_();  // the target, and three false positives above it
  probs[points] = static_cast<double>(points) - 3.5;
  Sample s = sample_of("pred", probs / static_cast<double>(points));
  s.set("label", Field(mask, s.at("pred").meta));
  s.set("coords", Field(coords, s.at("pred").meta));
  Driver node("froc", {{"eval_thresholds", {2, 4}}});
  node.fire({s});
  check_metrics(node.flush(), {{"mean", 0.5}}, 1e-12);
}

TEST_CASE("metrics of label maps take a one-hot label as class indices") {
  const Pair in = boxes();
  const at::Tensor hot = at::one_hot(in.label.select(1, 0).to(at::kLong), 3).movedim(-1, 1);
  for (const char* type : {"dice_metric", "hausdorff_distance_metric", "f_beta_score"}) {
    CAPTURE(type);
    Driver one_hot(type), indices(type), overlapping(type);
    one_hot.fire({pair_of({in.pred, hot}, 0, 3)});
    indices.fire({pair_of(in, 0, 3)});
    check_same(one_hot.flush(), indices.flush());
    CHECK_THROWS_WITH_AS(overlapping.fire({pair_of({in.pred, at::ones_like(hot)}, 0, 1)}),
                         "the label's channels are no exclusive classes: set argmax to false",
                         DataError);
  }
}

TEST_CASE("surface metrics take the spacing of the label's affine") {
  const Pair in = boxes();
  Affine affine = identity_affine;
  affine[0] = -0.85, affine[5] = 1.2, affine[10] = 0.9;
  Sample s = sample_of("pred", in.pred[0], affine);
  s.set("label", Field(in.label[0], s.at("pred").meta));
  for (const char* type : {"hausdorff_distance_metric", "surface_distance_metric"}) {
    CAPTURE(type);
    Driver by_affine(type, {{"affine_spacing", true}}),
        given(type, {{"spacing", {0.85, 1.2, 0.9}}});
    by_affine.fire({s});
    given.fire({s});
    CHECK(by_affine.flush() == given.flush());
  }
}

TEST_CASE("surface_dice_metric of one channel takes the one threshold") {
  const Pair in = boxes();
  const at::Tensor pred = in.pred.narrow(1, 1, 1), label = in.label.eq(1).to(at::kFloat);
  const auto of = [](const Json& params, const Pair& pair) {
    Json all = params;
    all["class_thresholds"] = {1};
    Driver node("surface_dice_metric", all);
    node.fire({pair_of(pair, 0, 3)});
    return node.flush()[0];
  };
  const auto expected = of(Json::object(), {at::cat({1 - pred, pred}, 1), label});
  CHECK(expected.second > 0);
  for (const bool argmax : {true, false})
    for (const bool background : {true, false})
      CHECK(of({{"argmax", argmax}, {"include_background", background}}, {pred, label}) ==
            expected);
  CHECK_THROWS_WITH_AS(of({{"include_background", true}}, {at::cat({1 - pred, pred}, 1), label}),
                       "class_thresholds has 1 value, but 2 classes count", Error);
  Driver many("surface_dice_metric", {{"class_thresholds", {1, 1}}});
  CHECK_THROWS_WITH_AS(many.fire({pair_of({at::cat({1 - pred, pred}, 1), label}, 0, 3)}),
                       "class_thresholds has 2 values, but 1 class counts without the background",
                       Error);
  CHECK_THROWS(Driver("surface_dice_metric", {{"class_thresholds", {-1}}}));
}

TEST_CASE("a prediction whose channels are regions is 0 or 1, or refused") {
  const Pair in = boxes();
  const at::Tensor hot =
      at::one_hot(in.label.select(1, 0).to(at::kLong), 3).movedim(-1, 1).to(at::kFloat);
  for (const char* type : {"dice_metric", "mean_iou", "hausdorff_distance_metric"}) {
    CAPTURE(type);
    Driver regions(type, {{"argmax", false}}), logits(type, {{"argmax", false}});
    regions.fire({pair_of({hot, hot}, 0, 3)});
    CHECK_FALSE(regions.flush().empty());
    CHECK_THROWS_WITH_AS(logits.fire({pair_of({hot - 0.25, hot}, 0, 3)}),
                         doctest::Contains("the prediction has the value 0.75"), DataError);
  }
}

TEST_CASE("scores that are NaN are refused wherever they would be put in order or in bins") {
  at::Tensor scores = sines({4, 3}, 1);
  scores[2][1] = NAN;
  const at::Tensor label = at::tensor({0, 1, 2, 1});
  for (const char* type : {"accuracy", "confusion_matrix", "rocauc", "average_precision_metric"}) {
    CAPTURE(type);
    Driver node(type);
    CHECK_THROWS_WITH_AS(node.fire({pair_of({scores, label}, 0, 4)}),
                         doctest::Contains("has scores that are NaN"), DataError);
  }
  Driver calibration("calibration_error_metric");
  const at::Tensor prob =
      at::full({1, 1, 2, 2}, 0.5).index_fill(3, at::tensor({1}, at::kLong), NAN);
  CHECK_THROWS_WITH_AS(calibration.fire({pair_of({prob, at::ones({1, 1, 2, 2})}, 0, 1)}),
                       doctest::Contains("has scores that are NaN"), DataError);
}

TEST_CASE("of one column of scores there is one area, whatever the average") {
  const at::Tensor scores = sines({6, 1}, 1), label = at::tensor({0, 1, 0, 1, 1, 0});
  for (const char* type : {"rocauc", "average_precision_metric"}) {
    Driver mean(type), none(type, {{"average", "none"}});
    mean.fire({pair_of({scores, label}, 0, 6)});
    none.fire({pair_of({scores, label}, 0, 6)});
    const auto found = none.flush();
    REQUIRE(found.size() == 1);
    CHECK(found == mean.flush());
  }
}

TEST_CASE("multi_scale_ssim_metric of one axis halves that axis, not the channels") {
  const at::Tensor one = sines({2, 1, 24}, 1), other = one + sines({2, 1, 24}, 4, 0.3);
  const auto of = [](const at::Tensor& a, const at::Tensor& b) {
    Driver node("multi_scale_ssim_metric",
                {{"spatial_dims", 1}, {"kernel_size", 3}, {"weights", {0.4, 0.6}}});
    node.fire({pair_of({a, b}, 0, 2)});
    return node.flush()[0].second;
  };
  const auto twice = [](const at::Tensor& t) { return t.expand({2, 2, 24}); };
  CHECK(of(one, other) > 0);
  CHECK(of(one, other) == doctest::Approx(of(twice(one), twice(other))));
}
