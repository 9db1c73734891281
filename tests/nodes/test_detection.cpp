// The parts of a detector against MONAI 1.6.1 (tests/golden/make_detection.py).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/state/list_field.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

using Sizes = std::vector<std::int64_t>;

Field plain(at::Tensor t) { return {std::move(t), std::make_shared<const Meta>()}; }

at::Tensor floats(const Json& rows) {
  if (rows.empty()) return at::zeros({0, 1});
  if (rows[0].is_number()) return at::tensor(rows.get<std::vector<double>>(), at::kFloat);
  std::vector<at::Tensor> all;
  for (const Json& row : rows) all.push_back(floats(row));
  return at::stack(all);
}
at::Tensor wholes(const Json& list) { return at::tensor(list.get<Sizes>(), at::kLong); }

Sizes with(Sizes first, const Json& grid) {
  for (const auto& n : grid) first.push_back(n);
  return first;
}

// The maps and truths of make_detection.py's detectors, and anchors.
struct Detector {
  const Json& c;
  std::int64_t dims = std::ssize(c["image"]);
  std::vector<at::Tensor> maps;  // of classes, then of boxes
  Sample sample;
  Json keys{{"cls_keys", {"c0", "c1"}}, {"box_reg_keys", {"r0", "r1"}}};

  explicit Detector(const Json& given) : c(given) {
    const std::int64_t classes = c["classes"];
    for (int i = 0; i < 2; ++i)
      maps.push_back(sines(with({2, 2 * classes}, c["grids"][i]), 1 + i, 1.5));
    for (int i = 0; i < 2; ++i)
      maps.push_back(sines(with({2, 4 * dims}, c["grids"][i]), 7 + i, 0.5));
    const char* names[] = {"c0", "c1", "r0", "r1"};
    sample.name = "case";
    sample.set("image", plain(at::zeros(with({2, 1}, c["image"]))));
    for (int i = 0; i < 4; ++i) sample.set(names[i], plain(maps[i].requires_grad_()));
    std::vector<at::Tensor> boxes, labels;
    for (int n = 0; n < 2; ++n) {
      boxes.push_back(floats(c["boxes"][n]));
      labels.push_back(wholes(c["labels"][n]));
    }
    sample.set("box", plain(stacked_lists(boxes)));
    sample.set("label", plain(stacked_lists(labels)));
    const Json shapes{{"feature_map_scales", {1, 2}},
                      {"base_anchor_shapes", c["shapes"]},
                      {"map_keys", {"c0", "c1"}}};
    sample = Driver("anchor_generator_with_anchor_shape", shapes).fire({sample}).samples().at(0);
  }
  Json params(Json more) const {
    more.update(keys);
    return more;
  }
};

double value(const Sample& s, const char* key) { return s.tensor(key).item<double>(); }

}  // namespace

TEST_CASE("anchors are MONAI's") {
  for (const Json& c : golden("detection.json")["anchors"]) {
    CAPTURE(c["params"].dump());
    Sample s;
    s.set("image", plain(at::zeros(c["image"].get<Sizes>())));
    for (int i = 0; i < 2; ++i)
      s.set("m" + std::to_string(i), plain(at::zeros(with({2, 3}, c["grids"][i]))));
    Json params = c["params"];
    params["map_keys"] = {"m0", "m1"};
    const at::Tensor a = Driver(c["type"], params).fire({s}).samples().at(0).tensor("anchors");
    REQUIRE(a.sizes() == at::IntArrayRef(c["size"].get<Sizes>()));
    CHECK(at::equal(a.slice(0, 0, {}, 97), floats(c["rows"])));
    CHECK(a.to(at::kDouble).abs().sum().item<double>() == doctest::Approx(c["sum"].get<double>()));
  }
}

TEST_CASE("a detector's losses and their gradients are MONAI's") {
  for (const Json& c : golden("detection.json")["detectors"]) {
    CAPTURE(c["params"].dump());
    const Detector d(c);
    const Sample out =
        Driver("retina_net_loss", d.params(c["params"])).fire({d.sample}).samples().at(0);
    CHECK(value(out, "classification") ==
          doctest::Approx(c["classification"].get<double>()).epsilon(1e-5));
    CHECK(value(out, "box_regression") ==
          doctest::Approx(c["box_regression"].get<double>()).epsilon(1e-5));
    CHECK(value(out, "loss") ==
          doctest::Approx(value(out, "classification") + value(out, "box_regression")));
    out.tensor("loss").backward();
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(d.maps[i].grad().to(at::kDouble).norm().item<double>() ==
            doctest::Approx(c["grads"][i].get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("a detector's boxes are MONAI's") {
  const Json selection{{"score_thresh", 0.6},
                       {"topk_candidates_per_level", 40},
                       {"nms_thresh", 0.3},
                       {"detections_per_img", 15}};
  for (const Json& c : golden("detection.json")["detectors"]) {
    CAPTURE(c["params"].dump());
    const Detector d(c);
    Json params = d.params(selection);
    if (c["params"].contains("box_coder_weights"))
      params["box_coder_weights"] = c["params"]["box_coder_weights"];
    const Sample out = Driver("box_selector", params).fire({d.sample}).samples().at(0);
    for (int n = 0; n < 2; ++n) {
      const Json& found = c["found"][n];
      REQUIRE(out.tensor("pred_label").size(1) == std::ssize(found["labels"]));
      CHECK(at::equal(out.tensor("pred_label")[n], wholes(found["labels"])));
      CHECK(at::allclose(out.tensor("pred_score")[n], floats(found["scores"])));
      CHECK(at::allclose(out.tensor("pred_box")[n], floats(found["boxes"]), 1e-4, 1e-4));
    }
    // Members of their own, with rows of -1 where one has fewer.
    params["score_thresh"] = 0.8175;
    const auto single = Driver("decollate")
                            .fire({Driver("box_selector", params).fire({d.sample}).samples().at(0)})
                            .samples();
    REQUIRE(single.size() == 2);
    CHECK(single[0].tensor("pred_box").size(1) == 2 * d.dims);
  }
}

TEST_CASE("a detector samples as many anchors as it may, the same for the same draws") {
  const Detector d(golden("detection.json")["detectors"][0]);
  const auto loss = [&](const char* sampler, int size, double pool, std::uint64_t index) {
    const Json params{{"batch_size_per_image", size},
                      {"sampler", sampler},
                      {"positive_fraction", 0.25},
                      {"pool_size", pool}};
    Driver driver("retina_net_loss", d.params(params));
    return value(driver.fire({d.sample}, at_index(index)).samples().at(0), "classification");
  };
  for (const char* sampler : {"hard_negative", "balanced"}) {
    CHECK(loss(sampler, 8, 4, 0) == loss(sampler, 8, 4, 0));
    CHECK(loss(sampler, 8, 4, 0) != loss(sampler, 8, 4, 1));
  }
  // The hardest background costs more than any, and a pool of all is as any.
  CHECK(loss("hard_negative", 8, 1, 0) > loss("hard_negative", 8, 50, 0));
  CHECK(loss("hard_negative", 8, 1, 0) > loss("balanced", 8, 1, 0));
}

TEST_CASE("a batch without boxes is all background, and what does not fit is named") {
  const Detector d(golden("detection.json")["detectors"][0]);
  const auto fire = [&](const at::Tensor& boxes, const at::Tensor& labels) {
    Sample s = d.sample;
    s.set("box", plain(boxes));
    s.set("label", plain(labels));
    return Driver("retina_net_loss", d.params(Json::object())).fire({s}).samples().at(0);
  };
  const at::Tensor none = at::full({2, 1, 6}, -1.F), no_class = at::full({2, 1}, -1, at::kLong);
  const Sample s = fire(none, no_class);
  CHECK(value(s, "box_regression") == 0);
  s.tensor("loss").backward();
  CHECK(d.maps[2].grad().abs().max().item<double>() == 0);
  CHECK(fire(none.narrow(1, 0, 0), no_class.narrow(1, 0, 0)).tensor("loss").item<double>() ==
        value(s, "loss"));
  const at::Tensor box = at::tensor({1.F, 1.F, 1.F, 5.F, 5.F, 5.F}).repeat({2, 1, 1});
  CHECK_THROWS_WITH_AS((void)fire(box, no_class + 4),
                       "class 3 among \"label\", which has classes 0 to 2, of member 0 of case",
                       DataError);
  CHECK_THROWS_WITH_AS((void)fire(box.flip(2), no_class + 1),
                       "a box without extent among \"box\" of member 0 of case", DataError);
  CHECK_THROWS_AS((void)fire(box[0], no_class + 1), DataError);
  CHECK_THROWS_AS((void)fire(box.narrow(2, 0, 4), no_class + 1), DataError);
  Json wrong = d.params(Json::object());
  wrong["box_reg_keys"] = {"r1", "r0"};
  CHECK_THROWS_AS((void)Driver("retina_net_loss", wrong).fire({d.sample}), DataError);
  CHECK_THROWS_AS(Driver("anchor_generator", {{"map_keys", "c0"}, {"sizes", {{1}, {2}}}}), Error);
  CHECK_THROWS_AS(Driver("anchor_generator", {{"map_keys", "c0"}, {"sizes", "big"}}), Error);
}

TEST_CASE("a range of overlaps whose step is longer than it is has its first alone") {
  Driver node("coco_metric", {{"num_classes", 1},
                              {"iou_list", {0.1, 0.5}},
                              {"iou_range", {0.1, 0.5, 1.0}},
                              {"max_detection", {1}}});
  Sample s;
  s.name = "case";
  s.set("pred_box", plain(at::tensor({0.f, 0.f, 10.f, 4.f}).view({1, 4})));
  s.set("pred_label", plain(at::zeros({1}, at::kLong)));
  s.set("pred_score", plain(at::ones({1})));
  s.set("box", plain(at::tensor({0.f, 0.f, 10.f, 10.f}).view({1, 4})));
  s.set("label", plain(at::zeros({1}, at::kLong)));
  (void)node.fire({s});
  for (const auto& [name, value] : node.flush())
    if (name == "mAP") CHECK(value == doctest::Approx(1));
}

TEST_CASE("average precision and recall of boxes are MONAI's") {
  for (const Json& c : golden("detection.json")["coco"]) {
    Json params = c["params"];
    params["num_classes"] = 3;
    Driver whole("coco_metric", params);
    for (const Json& one : c["cases"]) {
      Sample s;
      s.name = "case";
      s.set("pred_box", plain(floats(one["boxes"])));
      s.set("pred_label", plain(wholes(one["labels"])));
      s.set("pred_score", plain(floats(one["scores"])));
      s.set("box", plain(floats(one["truth"])));
      s.set("label", plain(wholes(one["truth_labels"])));
      (void)whole.fire({s});
    }
    const auto list = params.value("iou_list", std::vector<double>{0.1, 0.5, 0.75});
    const auto range = params.value("iou_range", std::vector<double>{0.1, 0.5, 0.05});
    const auto most = params.value("max_detection", Sizes{1, 5, 100});
    const auto text = [](double v) {
      char digits[16];
      std::snprintf(digits, sizeof digits, "%.2f", v);
      return std::string(digits);
    };
    const std::string mean =
        "IoU_" + text(range[0]) + "_" + text(range[1]) + "_" + text(range[2]) + "_MaxDet_";
    // Ours to MONAI's.
    std::map<std::string, std::string> names{{"mAP", "mAP_" + mean + std::to_string(most.back())}};
    for (const auto n : most) names["mAR_" + std::to_string(n)] = "mAR_" + mean + std::to_string(n);
    for (const double iou : list)
      for (const std::string of : {"AP", "AR"})
        names[of + "_" + std::to_string(std::lround(iou * 100))] =
            of + "_IoU_" + text(iou) + "_MaxDet_" + std::to_string(most.back());
    std::map<std::string, double> got;
    for (const auto& [name, v] : whole.flush()) got[name] = v;
    CHECK(got.size() == 4 * names.size());
    for (const auto& [ours, theirs] : names) {
      CAPTURE(ours);
      const auto& values = c["values"];
      double sum = 0;
      for (const std::string k : {"a", "b"}) {
        const double wanted = values.at(k + "_" + theirs);
        CHECK(got.at("class_" + k + "_" + ours) == doctest::Approx(wanted).epsilon(1e-6));
        sum += wanted;
      }
      // MONAI's mean precision has -1 of classes without a box in it, and its recall has not.
      CHECK(got.at(ours) == doctest::Approx(sum / 2).epsilon(1e-6));
      CHECK(std::isnan(got.at("class_c_" + ours)));
    }
  }
}

TEST_CASE("coco_metric refuses classes that num_classes does not have") {
  const auto said = [](std::int64_t truth, std::int64_t found) -> std::string {
    Sample s;
    s.name = "case";
    s.set("pred_box", plain(at::tensor({0.F, 0.F, 4.F, 4.F, -1.F, -1.F, -1.F, -1.F}).view({2, 4})));
    s.set("pred_label", plain(at::tensor({found, std::int64_t{-1}})));  // of no box
    s.set("pred_score", plain(at::tensor({0.5F, -1.F})));
    s.set("box", plain(at::tensor({0.F, 0.F, 4.F, 4.F}).view({1, 4})));
    s.set("label", plain(at::tensor({truth})));
    try {
      (void)Driver("coco_metric", {{"num_classes", 1}}).fire({s});
    } catch (const DataError& e) {
      return e.what();
    }
    return "nothing";
  };
  CHECK(said(0, 0) == "nothing");
  CHECK(said(1, 0) == "case: \"label\" has class 1; by num_classes there are 0 to 0");
  CHECK(said(-1, 0) == "case: \"label\" has class -1; by num_classes there are 0 to 0");
  CHECK(said(0, 2) == "case: \"pred_label\" has class 2; by num_classes there are 0 to 0");
}
