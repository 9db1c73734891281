// Losses against MONAI 1.6.1 (tests/golden/make_losses.py, and the values of its own tests).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "engine/base/error.h"
#include "engine/base/warnings.h"
#include "engine/graph/field_names.h"
#include "kernels/loss/terms.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"
#include "tests/nodes/on_device.h"

using namespace sluice;

namespace {

struct Pair {
  at::Tensor pred, label;
};

Pair small() {
  return {at::arange(36, at::kFloat).reshape({2, 2, 3, 3}) / 10 - 1.5,
          (at::arange(18).reshape({2, 1, 3, 3}) % 3 == 0).to(at::kFloat)};
}

// As make_losses.py's DATA.
Pair inputs(const std::string& data) {
  if (data == "a") return small();
  if (data == "one") return {small().pred.narrow(1, 0, 1).contiguous(), small().label};
  if (data == "classes") return {sines({6, 5}, 1, 2), at::arange(6) * 7 % 5};
  if (data == "views") return {sines({5, 4}, 1), sines({5, 4}, 3)};
  if (data == "images") return {sines({2, 2, 5, 4, 6}, 1), sines({2, 2, 5, 4, 6}, 3)};
  if (data == "shares")
    return {sines({2, 2, 5, 4, 6}, 1, 0.4) + 0.5, sines({2, 2, 5, 4, 6}, 3, 0.4) + 0.5};
  if (data == "field") return {sines({2, 3, 4, 5, 6}, 1), {}};
  if (data == "field2") return {sines({2, 2, 5, 6}, 1), {}};
  if (data == "patches") return {sines({2, 4, 12}, 1), sines({2, 2, 4, 6}, 3, 2)};
  if (data == "corners") {
    const auto boxes = [](int first) {
      const at::Tensor low = sines({4, 3}, first);
      return at::cat({low, low + 1.5 + 0.4 * low.flip(1)}, 1);
    };
    return {boxes(1), boxes(4)};
  }
  if (data == "nuclei") {
    const at::Tensor k = at::arange(162).view({2, 1, 9, 9});
    return {sines({2, 7, 9, 9}, 1, 2), at::cat({k.remainder(4).eq(1).to(at::kFloat),
                                                sines({2, 2, 9, 9}, 3), (k * 7 % 3).to(at::kFloat)},
                                               1)};
  }
  const at::Tensor pred = sines({2, 3, 4, 5, 3}, 1, 2);
  const at::Tensor label = (at::arange(120).reshape({2, 1, 4, 5, 3}) * 7 % 3).to(at::kFloat);
  if (data == "b") return {pred, label};
  if (data == "soft") return {pred, at::softmax(sines({2, 3, 4, 5, 3}, 5, 2), 1)};
  if (data == "far") return {pred, label.masked_fill(label.eq(2), 255)};
  if (data == "two") return {sines({2, 2, 4, 5, 3}, 1, 0.4) + 0.5, label.eq(2).to(at::kFloat)};
  if (data == "share") return {sines({2, 1, 4, 5, 3}, 1, 0.4) + 0.5, label.eq(2).to(at::kFloat)};
  if (data == "lacking") return {pred, label.masked_fill(label.eq(2), 0)};
  return {pred, at::one_hot(label.select(1, 0).to(at::kLong), 3).movedim(-1, 1).to(at::kFloat)};
}

Sample batch(const at::Tensor& pred, const at::Tensor& label) {
  Sample s = sample_of("pred", pred);
  if (!label.defined()) return s;
  s.set("label", Field(label, std::make_shared<const Meta>()));
  if (label.dim() > 2) {
    at::Tensor mask = label.narrow(1, 0, 1).gt(0).to(at::kFloat);
    s.set("mask", Field(std::move(mask), std::make_shared<const Meta>()));
  }
  return s;
}

// hover_net's outputs and their truth, which stand side by side in `in`.
void set_nuclei(Sample& s, const Pair& in) {
  const auto set = [&s](const char* key, at::Tensor t) {
    s.set(key, Field(std::move(t), std::make_shared<const Meta>()));
  };
  set("nucleus_prediction", in.pred.narrow(1, 0, 2));
  set("horizontal_vertical", in.pred.narrow(1, 2, 2));
  set("type_prediction", in.pred.narrow(1, 4, 3));
  set("label", in.label.narrow(1, 0, 1));
  set("hover_label_inst", in.label.narrow(1, 1, 2));
  set("label_type", in.label.narrow(1, 3, 1));
}

// The image and which of its patches were masked.
void set_patches(Sample& s, const Pair& in) {
  s.set("image", Field(in.label, std::make_shared<const Meta>()));
  const at::Tensor mask = at::arange(8).remainder(3).eq(0).to(at::kFloat).view({2, 4});
  s.set("mask", Field(mask.to(in.label.device()), std::make_shared<const Meta>()));
}

double loss_of(const std::string& type, const Json& params, const Pair& in) {
  return drive(type, params, {batch(in.pred, in.label)})[0].tensor("loss").item<double>();
}

void check_loss(const std::string& type, const Json& c, bool channels_last) {
  CAPTURE(channels_last);
  auto [pred, label] = inputs(c["data"]);
  if (channels_last && pred.dim() > 3)
    pred = pred.contiguous(pred.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                           : at::MemoryFormat::ChannelsLast);
  pred = on_device(pred).requires_grad_();
  label = on_device(label);
  Sample in = batch(pred, label);
  if (c["data"] == "nuclei") set_nuclei(in, {pred, label});
  if (c["data"] == "patches") set_patches(in, {pred, label});
  const auto out = drive(type, c["params"], {in});
  CHECK(out[0].has("label") == label.defined());
  const at::Tensor loss = out[0].tensor("loss");
  CHECK(loss.sum().item<double>() == doctest::Approx(c["value"].get<double>()).epsilon(1e-6));
  if (c.contains("values")) {
    const at::Tensor values = loss.detach().cpu().contiguous().flatten();
    REQUIRE(c["values"].size() == std::min<std::size_t>(40, values.numel()));
    for (std::size_t i = 0; i < c["values"].size(); ++i)
      CHECK(values[i].item<double>() ==
            doctest::Approx(c["values"][i].get<double>()).epsilon(1e-5));
  }
  loss.sum().backward();
  const at::Tensor grad = pred.grad().cpu().contiguous().flatten();
  const double size = grad.abs().max().item<double>();
  REQUIRE(c["grad"].size() == std::min<std::size_t>(40, pred.numel()));
  for (std::size_t i = 0; i < c["grad"].size(); ++i)
    CHECK(std::abs(grad[i].item<double>() - c["grad"][i].get<double>()) < 1e-5 * size);
}

}  // namespace

TEST_CASE("a loss is the mean of its samples' losses, or says that it couples them") {
  for (const std::string& type : node_types("loss")) {
    if (type == "sum_losses" || type == "tre_loss" || type == "retina_net_loss" ||
        type == "perceptual_loss")
      continue;  // as below
    const Spec& spec = *Registry::global().catalogue().find(type);
    for (const auto& c : golden_cases("losses/" + type + ".json")) {
      const auto couples = [&](const FieldRule& r) {
        const ParamSpec* when = spec.find_param(r.when);
        return r.act == FieldRule::Act::couples &&
               holds(r, c["params"].value(r.when, when ? when->fallback : Json()));
      };
      if (std::ranges::any_of(spec.rules, couples) || c["params"].contains("rows_key") ||
          c["data"] == "nuclei" || c["data"] == "patches")
        continue;
      CAPTURE(type);
      CAPTURE(c["params"].dump());
      const Pair all = inputs(c["data"]);
      const at::Tensor whole =
          drive(type, c["params"], {batch(all.pred, all.label)})[0].tensor("loss");
      double sum = 0;
      for (std::int64_t i = 0; i < all.pred.size(0); ++i)
        sum += drive(type, c["params"],
                     {batch(all.pred.narrow(0, i, 1),
                            all.label.defined() ? all.label.narrow(0, i, 1) : at::Tensor())})[0]
                   .tensor("loss")
                   .mean()
                   .item<double>();
      CHECK(whole.mean().item<double>() ==
            doctest::Approx(sum / static_cast<double>(all.pred.size(0))).epsilon(1e-5));
    }
  }
}

TEST_CASE("losses and their gradients equal MONAI's") {
  for (const std::string& type : node_types("loss")) {
    if (type == "sum_losses" || type == "tre_loss") continue;  // of losses, of points
    if (type == "retina_net_loss") continue;                   // of boxes: test_detection.cpp
    if (type == "perceptual_loss") continue;  // of a network's features: test_perceptual.cpp
    for (const auto& c : golden_cases("losses/" + type + ".json")) {
      CAPTURE(type);
      CAPTURE(c["data"].dump());
      CAPTURE(c["params"].dump());
      for (const bool channels_last : {false, true}) {
        try {
          check_loss(type, c, channels_last);
        } catch (const std::exception& e) {
          FAIL_CHECK(std::string(e.what()));
        }
      }
    }
  }
}

TEST_CASE(
    "hover_net_loss takes one-hot labels, networks without types, and refuses what does not fit") {
  const Pair in = inputs("nuclei");
  Sample s = sample_of("image", in.pred);
  set_nuclei(s, in);
  const auto loss = [&s](const Json& params = Json::object()) {
    return drive("hover_net_loss", params, {s})[0].tensor("loss").item<double>();
  };
  const auto set = [&s](const char* key, at::Tensor t) {
    s.set(key, Field(std::move(t), std::make_shared<const Meta>()));
  };
  const double whole = loss();
  const auto hot = [](const at::Tensor& t, std::int64_t n) {
    return at::one_hot(t.select(1, 0).to(at::kLong), n).movedim(-1, 1).to(at::kFloat);
  };
  set("label", hot(in.label.narrow(1, 0, 1), 2));
  set("label_type", hot(in.label.narrow(1, 3, 1), 3));
  CHECK(loss() == whole);
  CHECK(loss({{"nc_key", nullptr}}) ==
        doctest::Approx(loss({{"lambda_nc_dice", 0}, {"lambda_nc_ce", 0}})));
  set("label_type", in.label.narrow(1, 3, 1) + 1);
  CHECK_THROWS_WITH_AS(loss(), "label value 3.0 in case (member 0); the network has classes 0 to 2",
                       DataError);
  set("label_type", in.label.narrow(1, 0, 2));
  CHECK_THROWS_WITH_AS(
      loss(), "field \"label_type\" [2, 2, 9, 9] does not fit the output [2, 3, 9, 9]", DataError);
}

TEST_CASE("the defaults of a node's own parameters are those that its documents have") {
  const Catalogue& types = Registry::global().catalogue();
  CHECK(types.find("masked_patch_loss")->find_param("label_key")->fallback == "image");
  CHECK(types.find("tre_loss")->find_param("key")->fallback == Json::array({"warped_points"}));
  CHECK(types.find("coco_metric")->find_param("keys")->fallback ==
        Json::array({"pred_box", "box"}));
  CHECK(types.find("rand_remove_component")->find_param("prob")->fallback == 0.2);
  CHECK(types.find("rand_binary_operator")->find_param("prob")->fallback == 0.4);
  CHECK(types.find("rand_zoom_box")->find_param("image_keys")->fallback == Json::array({"image"}));
  CHECK(types.find("tre_metric")->find_param("keys")->fallback ==
        Json::array({"warped_points", "moving_points"}));
  CHECK(types.find("variance_metric")->find_param("key")->fallback == "pred");
  CHECK(types.find("residual_encoder_unet")->find_param("n_conv_per_stage_decoder")->fallback ==
        Json::array({1}));
  for (const char* type : {"hover_net", "torchvision_features", "lenet"})
    CHECK(types.find(type)->find_param("in_channels")->fallback == 3);
}

TEST_CASE("masked_patch_loss reads the image, and says what does not fit its patches") {
  const Pair in = inputs("patches");
  Sample s = sample_of("pred", in.pred);  // its truth is the image, not a label
  set_patches(s, in);
  const auto loss = [&s](const Json& size) {
    return drive("masked_patch_loss", {{"patch_size", size}}, {s})[0].tensor("loss");
  };
  CHECK(loss({2, 3}).item<double>() == doctest::Approx(1.713721752166748));
  CHECK_THROWS_WITH_AS(loss(2),
                       "the output [2, 4, 12] and \"mask\" [2, 4] do not fit the patches of "
                       "\"image\", [2, 6, 8]",
                       DataError);
  CHECK_THROWS_WITH_AS(loss({2, 4}),
                       "\"image\" [2, 2, 4, 6] is no whole number of patches of [2, 4]", DataError);
  CHECK_THROWS_WITH_AS(loss({2, 3, 2}), "patch_size has one entry or 2, found 3", Error);
}

TEST_CASE("several outputs, listed or stacked, have halving weights or those given") {
  const Json soft = {{"to_onehot_y", true}, {"softmax", true}};
  const Pair in = small();
  const at::Tensor other = in.pred.flip(1), coarse = in.pred.slice(2, 0, 2).slice(3, 0, 2);
  const double first = loss_of("dice_ce_loss", soft, in);
  const double second = loss_of("dice_ce_loss", soft, {other, in.label});
  Sample s = batch(in.pred, in.label);
  s.set("other", Field(other, std::make_shared<const Meta>()));
  s.set("coarse", Field(coarse, std::make_shared<const Meta>()));
  s.set("stack", Field(at::stack({in.pred, other}, 1), std::make_shared<const Meta>()));
  const auto value = [&](const char* type, Json params, const Json& more) {
    params.update(more);
    return drive(type, params, {s})[0].tensor("loss").item<double>();
  };
  const auto of = [&](const Json& more) { return value("dice_ce_loss", soft, more); };
  CHECK(of({{"key", {"pred", "other"}}}) == doctest::Approx((2 * first + second) / 3));
  CHECK(of({{"key", "stack"}}) == doctest::Approx((2 * first + second) / 3));
  CHECK(of({{"key", "stack"}, {"head_weights", {0.2, 3}}}) ==
        doctest::Approx(0.2 * first + 3 * second));
  CHECK_THROWS_WITH_AS(of({{"key", "stack"}, {"head_weights", {1, 2, 3}}}),
                       "head_weights has 3 values for 2 outputs", Error);
  // A coarser output's label is the nearest voxel's: 2 of 3 voxels' centres are at 0.5 and 2.
  const auto at02 = at::tensor({0, 2}, at::kLong);
  const double third =
      loss_of("dice_ce_loss", soft, {coarse, in.label.index_select(2, at02).index_select(3, at02)});
  CHECK(of({{"key", {"pred", "other", "coarse"}}}) ==
        doctest::Approx((4 * first + 2 * second + third) / 7));
  const auto mode = [&](const char* name) {
    return of({{"key", {"pred", "other", "coarse"}}, {"weight_mode", name}});
  };
  CHECK(mode("same") == doctest::Approx(first + second + third));
  CHECK(mode("exp") == doctest::Approx(first + second / 2 + third / 4));
  CHECK(mode("two") == doctest::Approx(first + second / 2 + third / 2));

  s = batch(sines({6, 5}, 1, 2), at::arange(6) * 7 % 5);
  s.set("other", Field(sines({6, 5}, 3, 2), std::make_shared<const Meta>()));
  const double a = value("cross_entropy_loss", Json::object(), Json::object());
  const double b = value("cross_entropy_loss", Json::object(), {{"key", "other"}});
  CHECK(value("cross_entropy_loss", Json::object(), {{"key", {"pred", "other"}}}) ==
        doctest::Approx((2 * a + b) / 3));
}

TEST_CASE("each of several keys has a weight, or there is one for all, before a batch comes") {
  const auto opened = [](const char* type, const Json& weights, Json params = Json::object()) {
    params.update({{"key", {"a", "b", "c"}}, {"head_weights", weights}});
    Driver(type, params);
  };
  for (const char* type : {"mse_loss", "dice_loss", "focal_loss", "cross_entropy_loss", "sum_loss",
                           "global_mutual_information_loss"}) {
    CAPTURE(type);
    CHECK_NOTHROW(opened(type, {1, 0.5, 0.2}));
    CHECK_NOTHROW(opened(type, Json::array({0.3})));
    CHECK_THROWS_WITH_AS(opened(type, {1, 0.5}), "head_weights has 2 values for 3 outputs", Error);
    CHECK_THROWS_WITH_AS(opened(type, {1, 0.5, 0.2, 0.1}),
                         "head_weights has 4 values for 3 outputs", Error);
  }
  CHECK_THROWS_AS(
      opened("generalized_wasserstein_dice_loss", {1, 0.5}, {{"dist_matrix", {{0, 1}, {1, 0}}}}),
      Error);
  Sample s = sample_of("a", at::ones({1, 1, 2}));
  s.set("b", Field(at::ones({1, 1, 3}), s.at("a").meta));
  const Json one = {{"key", {"a", "b"}}, {"head_weights", Json::array({0.3})}};
  CHECK(drive("sum_loss", one, {s})[0].tensor("loss").item<double>() == doctest::Approx(1.5));
}

TEST_CASE("a coarser output's truth is the nearest voxel's, whatever the loss") {
  const Pair in = inputs("images");
  // 2 of 5, 4 and 6 voxels: centres at 1.25 and 3.75, 1 and 3, 1.5 and 4.5.
  const auto nearest = [](at::Tensor t, std::int64_t first) {
    const std::vector<std::vector<std::int64_t>> voxels = {{1, 3}, {1, 3}, {1, 4}};
    for (std::size_t d = 0; d < 3; ++d)
      t = t.index_select(first + static_cast<std::int64_t>(d), at::tensor(voxels[d], at::kLong));
    return t;
  };
  const at::Tensor coarse = in.pred.slice(2, 0, 2).slice(3, 0, 2).slice(4, 0, 2);
  const auto check = [&](const char* type, const at::Tensor& label, std::int64_t first,
                         const Json& params = Json::object()) {
    CAPTURE(type);
    const at::Tensor mask = in.label.narrow(1, 0, 1).gt(0).to(at::kFloat);
    const auto of = [&](const at::Tensor& pred, const at::Tensor& truth, const at::Tensor& by,
                        const Json& more) {
      Sample s = batch(pred, truth);
      s.set("mask", Field(by, s.at("pred").meta));
      s.set("coarse", Field(coarse, s.at("pred").meta));
      Json all = params;
      all.update(more);
      return drive(type, all, {s})[0].tensor("loss").item<double>();
    };
    const double fine = of(in.pred, label, mask, Json::object());
    const double less = of(coarse, nearest(label, first), nearest(mask, 2), Json::object());
    CHECK(of(in.pred, label, mask, {{"key", {"pred", "coarse"}}, {"weight_mode", "same"}}) ==
          doctest::Approx(fine + less).epsilon(1e-6));
  };
  const at::Tensor classes = (at::arange(240).view({2, 5, 4, 6}) * 7).remainder(2);
  const Json masked = {{"mask_key", "mask"}};
  check("mse_loss", in.label, 2);
  check("mse_loss", in.label, 2, masked);
  check("l1_loss", in.label.gt(0), 2);
  check("bce_with_logits_loss", in.label.gt(0).to(at::kLong), 2, masked);
  check("global_mutual_information_loss", in.label, 2);
  check("cross_entropy_loss", classes, 1);
  check("cross_entropy_loss", at::softmax(in.label, 1), 2);
  check("nll_loss", classes, 1);
  check("dice_loss", classes.unsqueeze(1), 2, {{"to_onehot_y", true}, {"mask_key", "mask"}});
  check("nacl_loss", classes.unsqueeze(1), 2, {{"kernel_size", 1}});
}

TEST_CASE("a truth that a network made has its gradient") {
  const auto slope = [](const char* type, const Json& params, const Pair& in, const char* by) {
    const Pair taped = {in.pred.clone().requires_grad_(), in.label.clone().requires_grad_()};
    drive(type, params, {batch(taped.pred, taped.label)})[0].tensor("loss").backward();
    return (by == std::string("label") ? taped.label : taped.pred).grad();
  };
  const Json all = {{"include_background", true}};
  const std::pair<const char*, Json> same_both_ways[] = {{"mse_loss", Json::object()},
                                                         {"jukebox_loss", Json::object()},
                                                         {"jukebox_loss", {{"reduction", "sum"}}},
                                                         {"hausdorff_dt_loss", all},
                                                         {"log_hausdorff_dt_loss", all},
                                                         {"hausdorff_dt_loss", {{"batch", true}}}};
  for (const auto& [type, params] : same_both_ways) {
    CAPTURE(type);
    CAPTURE(params.dump());
    const Pair in = inputs("shares"), swapped = {in.label, in.pred};
    const at::Tensor found = slope(type, params, in, "label"),
                     wanted = slope(type, params, swapped, "pred");
    REQUIRE(found.defined());
    CHECK(wanted.abs().max().item<double>() > 0);
    CHECK((found - wanted).abs().max().item<double>() < 1e-5 * wanted.abs().max().item<double>());
  }
}

TEST_CASE("a loss of float64 is computed in float64") {
  for (const std::string& type : node_types("loss")) {
    if (type == "sum_losses" || type == "tre_loss" || type == "retina_net_loss" ||
        type == "perceptual_loss")
      continue;  // of losses, of points, of boxes, of a network's float32
    for (const auto& c : golden_cases("losses/" + type + ".json")) {
      CAPTURE(type);
      CAPTURE(c["params"].dump());
      auto [pred, label] = inputs(c["data"]);
      pred = pred.to(at::kDouble);
      if (label.defined() && label.is_floating_point()) label = label.to(at::kDouble);
      Sample s = batch(pred, label);
      if (c["data"] == "nuclei") set_nuclei(s, {pred, label});
      if (c["data"] == "patches") set_patches(s, {pred, label});
      const at::Tensor loss = drive(type, c["params"], {s})[0].tensor("loss");
      CHECK((loss.scalar_type() == at::kDouble));
      CHECK(loss.sum().item<double>() == doctest::Approx(c["value"].get<double>()).epsilon(1e-5));
    }
  }
}

TEST_CASE("gaussian_kl_loss says that logarithms of variances are no deviations") {
  const Pair in = inputs("images");
  CHECK_THROWS_WITH_AS(loss_of("gaussian_kl_loss", {}, in),
                       "\"label\" has values below 0, which no standard deviation is: set "
                       "\"spread\" to \"logvar\" if it holds logarithms of variances",
                       DataError);
  const double by_logvar = loss_of("gaussian_kl_loss", {{"spread", "logvar"}}, in);
  CHECK(by_logvar ==
        doctest::Approx(loss_of("gaussian_kl_loss", {}, {in.pred, (in.label / 2).exp()})));
}

TEST_CASE("a device may record a loss unless the host takes part or gives weights") {
  const auto recorded = [](const char* type, const Json& params) {
    return Driver(type, params).node().recordable(Firing()).has_value();
  };
  CHECK(recorded("focal_loss", {{"alpha", 0.3}}));
  CHECK(recorded("mse_loss", {}));
  CHECK_FALSE(recorded("focal_loss", {{"alpha", {0.3, 0.4}}}));
  CHECK_FALSE(recorded("focal_loss", {{"alpha", Json::array({0.3})}}));
  CHECK_FALSE(recorded("focal_loss", {{"alpha", 0.3}, {"use_softmax", true}}));
  CHECK_FALSE(recorded("hausdorff_dt_loss", {}));
  CHECK_FALSE(recorded("log_hausdorff_dt_loss", {}));
  CHECK_FALSE(recorded("boundary_loss", {}));
  CHECK_FALSE(recorded("ssim_loss", {}));  // its windows' weights are the host's
  CHECK_FALSE(recorded("mse_loss", {{"scales", {1}}}));
  CHECK_FALSE(recorded("generalized_wasserstein_dice_loss", {{"dist_matrix", {{0, 1}, {1, 0}}}}));
}

TEST_CASE("losses say what does not fit") {
  const Pair a = inputs("a"), images = inputs("images"), views = inputs("views");
  const auto said = [](const char* type, const Json& params, const Pair& in) -> std::string {
    try {
      loss_of(type, params, in);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  CHECK(said("mse_loss", {}, a) ==
        "\"label\" [2, 1, 3, 3] has not the shape of the output, [2, 2, 3, 3]");
  CHECK(said("mse_loss", {}, {at::zeros({4, 1}), at::zeros({4})}) ==
        "\"label\" [4] has not the shape of the output, [4, 1]; csv_list gives a vector of one by "
        "\"groups\": {\"label\": [\"label\"]}");
  CHECK(said("contrastive_loss", {}, images) ==
        "the output [2, 2, 5, 4, 6] is no [N, features] with N at least 1");
  CHECK(said("box_giou_loss", {}, images) ==
        "\"pred\" [2, 2, 5, 4, 6] is no boxes [N, 4] or [N, 6]");
  CHECK(said("diffusion_loss", {}, images) ==
        "the output [2, 2, 5, 4, 6] is no field [N, axes, ...] of at least 3 voxels an axis");
  CHECK(said("ssim_loss", {}, images) ==
        "the window of 11 voxels does not lie in an image [2, 2, 5, 4, 6]");
  CHECK(said("bce_with_logits_loss", {{"pos_weight", {1, 2, 3}}}, images) ==
        "pos_weight has 3 values for the output [2, 2, 5, 4, 6]");
  CHECK(said("focal_loss", {{"to_onehot_y", true}, {"alpha", {1, 2, 3}}}, a) ==
        "alpha has 3 values for 2 classes");
  CHECK(said("focal_loss", {{"to_onehot_y", true}, {"alpha", Json::array({0.25})}}, a) ==
        "alpha has 1 values for 2 classes");
  for (const double alpha : {-0.5, 1.5})
    CHECK(said("focal_loss", {{"alpha", alpha}}, inputs("one")) ==
          "alpha is a number from 0 to 1, or a list of a weight for each class, found " +
              Json(alpha).dump());
  CHECK(said("generalized_wasserstein_dice_loss", {{"dist_matrix", {{0}}}}, a) ==
        "dist_matrix has 1 rows for 2 classes");
  CHECK(said("asymmetric_unified_focal_loss", {{"to_onehot_y", true}}, inputs("b")) ==
        "asymmetric_unified_focal_loss is of two classes, not of 3");
  CHECK(said("dice_ce_loss", {{"sigmoid", true}, {"weight", {1, 2}}}, inputs("one")) ==
        "weight has 2 values for 1 classes");
}

TEST_CASE("dice_ce_loss is of the voxels that are not ignored, whatever the label is like") {
  const Pair in = inputs("b"), hot = inputs("hot");
  const at::Tensor out = (at::arange(120).reshape(in.label.sizes()) * 5 % 4).eq(0);
  const at::Tensor which = out.logical_not().flatten().nonzero().squeeze(1);
  // As one sample of one axis.
  const auto kept = [&](const at::Tensor& t) {
    return t.movedim(1, 0).flatten(1).index_select(1, which).unsqueeze(0);
  };
  const Json sigmoid{{"sigmoid", true}, {"batch", true}, {"weight", {2.5}}};
  const Json softmax{{"softmax", true}, {"batch", true}, {"weight", {0.5, 1, 2}}};
  Json index = softmax, shares = softmax;
  index["to_onehot_y"] = true;
  shares["label_smoothing"] = 0.1;
  const std::tuple<Json, at::Tensor, at::Tensor, double> cases[] = {
      {sigmoid, in.pred.narrow(1, 0, 1), in.label.eq(1).to(at::kFloat), 255},
      {index, in.pred, in.label, 255},
      {shares, in.pred, hot.label, 0}};  // a voxel of no class
  for (const auto& [given, pred, label, mark] : cases)
    for (const char* reduction : {"mean", "sum"}) {
      Json params = given;
      params["reduction"] = reduction;
      CAPTURE(params.dump());
      const double expected = loss_of("dice_ce_loss", params, {kept(pred), kept(label)});
      params["ignore_index"] = 255;
      const at::Tensor x = pred.clone().requires_grad_();
      const Sample s = batch(x, label.masked_fill(out, mark));
      const at::Tensor loss = drive("dice_ce_loss", params, {s})[0].tensor("loss");
      CHECK(loss.item<double>() == doctest::Approx(expected).epsilon(1e-6));
      loss.backward();
      CHECK(x.grad().masked_select(out.expand_as(x)).abs().max().item<double>() == 0);
      params["lambda_dice"] = 0;
      CHECK(loss_of("dice_ce_loss", params, {pred, at::full_like(label, mark)}) == 0);
    }
}

TEST_CASE("losses of pairs are LibTorch's, also where the layouts differ and at their ends") {
  const at::Tensor truth =
      at::cat({sines({2, 3, 5, 7}).sigmoid(), at::zeros({1, 3, 5, 7}), at::ones({1, 3, 5, 7})});
  const at::Tensor pred =
      at::cat({sines({2, 3, 5, 7}, 2).sigmoid(), at::ones({1, 3, 5, 7}), at::ones({1, 3, 5, 7})});
  using Loss = std::function<at::Tensor(const at::Tensor&)>;
  const std::pair<Json, Loss> cases[] = {
      {{{"type", "l1_loss"}}, [&](const at::Tensor& x) { return at::l1_loss(x, truth); }},
      {{{"type", "mse_loss"}}, [&](const at::Tensor& x) { return at::mse_loss(x, truth); }},
      {{{"type", "huber_loss"}, {"delta", 0.1}},
       [&](const at::Tensor& x) { return at::huber_loss(x, truth, at::Reduction::Mean, 0.1); }},
      {{{"type", "smooth_l1_loss"}, {"beta", 0.1}},
       [&](const at::Tensor& x) { return at::smooth_l1_loss(x, truth, at::Reduction::Mean, 0.1); }},
      {{{"type", "bce_loss"}},
       [&](const at::Tensor& x) { return at::binary_cross_entropy(x, truth); }}};
  for (const auto& [given, of] : cases)
    for (const bool last : {false, true}) {
      Json params = given;
      const std::string type = params["type"];
      params.erase("type");
      CAPTURE(type);
      CAPTURE(last);
      const auto layout = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      const at::Tensor a = pred.clone(layout).requires_grad_(), b = pred.clone().requires_grad_();
      const Sample made = drive(type, params, {batch(a, truth)})[0];
      const at::Tensor ours = made.tensor("loss"), theirs = of(b);
      CHECK(ours.item<double>() == doctest::Approx(theirs.item<double>()).epsilon(1e-6));
      ours.backward();
      theirs.backward();
      CHECK(a.grad().is_contiguous(layout));
      CHECK(at::allclose(a.grad(), b.grad(), 1e-5, 1e-8));
    }
  CHECK_THROWS(drive("bce_loss", Json::object(), {batch(pred + 0.5, truth)}));
}

TEST_CASE("what is almost right costs what LibTorch says, and what is no number has no slope") {
  const at::Tensor zero = at::zeros({40}), small = at::full({40}, 1e-6);
  const auto bce = [](const at::Tensor& x, const at::Tensor& y) {
    return pair_loss(PairTerm::bce, x, y, at::Reduction::Mean).item<double>() /
           at::binary_cross_entropy(x, y).item<double>();
  };
  CHECK(bce(small, zero) == doctest::Approx(1).epsilon(1e-6));
  CHECK(bce(1 - small, zero + 1) == doctest::Approx(1).epsilon(1e-6));
  const at::Tensor logits = at::cat({at::full({1, 1, 40}, 40.), at::full({1, 1, 40}, 26.)}, 1),
                   label = at::zeros({1, 40}, at::kLong);
  CHECK(fused_cross_entropy(logits, label, {}, true).item<double>() /
            at::cross_entropy_loss(logits, label).item<double>() ==
        doctest::Approx(1).epsilon(1e-5));
  for (const PairTerm term : {PairTerm::l1, PairTerm::mse, PairTerm::huber, PairTerm::smooth_l1}) {
    CAPTURE(static_cast<int>(term));
    const at::Tensor x = at::full({20}, NAN).requires_grad_();
    pair_loss(term, x, at::zeros({20}), at::Reduction::Sum).backward();
    CHECK(x.grad().isnan().all().item<bool>());
  }
}

TEST_CASE("a sum too large for float32 is infinite, and no number in an ignored voxel harms none") {
  const at::Tensor far = at::full({5000}, 1e18);
  CHECK(pair_loss(PairTerm::mse, far, at::zeros({5000}), at::Reduction::Sum).isinf().item<bool>());
  for (const float bad : {NAN, -INFINITY}) {
    CAPTURE(bad);
    const at::Tensor logits = sines({2, 3, 40}), label = at::arange(80).remainder(2).view({2, 40});
    logits.narrow(1, 2, 1).narrow(2, 0, 3).fill_(bad);
    label.narrow(1, 0, 3).fill_(2);
    const at::Tensor a = logits.clone().requires_grad_(), b = logits.clone().requires_grad_();
    const Sample made = drive("cross_entropy_loss", {{"ignore_index", 2}}, {batch(a, label)})[0];
    const at::Tensor ours = made.tensor("loss");
    const at::Tensor theirs = at::cross_entropy_loss(b, label, {}, at::Reduction::Mean, 2);
    CHECK(ours.item<double>() == doctest::Approx(theirs.item<double>()));
    ours.backward();
    theirs.backward();
    CHECK(at::allclose(a.grad(), b.grad(), 1e-5, 1e-8, true));
  }
}

TEST_CASE("mutual information by blocks of voxels is that of all bins at once") {
  const at::Tensor pred = sines({2, 1, 30, 30, 30}).sigmoid() * 1.2 - 0.1;  // some outside of 0..1
  const at::Tensor truth = sines({2, 1, 30, 30, 30}, 2).sigmoid();
  const auto loss = [&](const at::Tensor& x, const at::Tensor& y) {
    return drive("global_mutual_information_loss", Json::object(), {batch(x, y)})[0].tensor("loss");
  };
  const at::Tensor a = pred.clone().requires_grad_(), b = pred.clone().requires_grad_();
  const at::Tensor ours = loss(a, truth), whole = loss(b, truth.clone().requires_grad_());
  CHECK(ours.item<double>() == doctest::Approx(whole.item<double>()).epsilon(1e-5));
  ours.backward();
  whole.backward();
  const double size = b.grad().abs().max().item<double>();
  CHECK((a.grad() - b.grad()).abs().max().item<double>() < 1e-4 * size);
}

TEST_CASE("centrelines of one axis are thinned along it, and batch sums over members") {
  const at::Tensor pred = sines({2, 3, 20}, 1, 2),
                   label = sines({2, 3, 20}, 5).gt(0).to(at::kFloat);
  const Json of{{"sigmoid", true}};
  CHECK(
      loss_of("soft_cl_dice_loss", of, {pred, label}) ==
      doctest::Approx(loss_of("soft_cl_dice_loss", of, {pred.unsqueeze(-1), label.unsqueeze(-1)})));
  // Members whose borders are 0 may as well stand side by side.
  const auto framed = [](const at::Tensor& t) { return at::constant_pad_nd(t, {1, 1, 1, 1}); };
  const at::Tensor x = framed(sines({2, 1, 6, 7}, 1, 0.4) + 0.5);
  const at::Tensor y = framed(sines({2, 1, 6, 7}, 5).gt(0).to(at::kFloat));
  const auto beside = [](const at::Tensor& t) { return at::cat({t[0], t[1]}, 1).unsqueeze(0); };
  for (const char* type : {"soft_cl_dice_loss", "soft_dice_cl_dice_loss"})
    CHECK(loss_of(type, {{"batch", true}}, {x, y}) ==
          doctest::Approx(loss_of(type, Json::object(), {beside(x), beside(y)})));
}

TEST_CASE("batchmean over scales is their mean") {
  const Pair in = inputs("shares");
  const Json once{{"reduction", "batchmean"}};
  Json twice = once;
  twice["scales"] = {0, 0};
  CHECK(loss_of("kl_div_loss", twice, in) == doctest::Approx(loss_of("kl_div_loss", once, in)));
}

TEST_CASE("sum_losses adds what losses left in fields of their own") {
  const at::Tensor pred = small().pred.requires_grad_();
  const Json soft = {{"to_onehot_y", true}, {"softmax", true}};
  Json dice = soft, focal = soft;
  dice["output_key"] = "dice";
  focal["output_key"] = "focal";
  Sample s = drive("dice_loss", dice, {batch(pred, small().label)})[0];
  CHECK_FALSE(s.has("loss"));
  s = drive("dice_focal_loss", focal, {s})[0];
  const at::Tensor first = s.tensor("dice"), second = s.tensor("focal");
  const auto sum = [&](const Json& params) {
    return drive("sum_losses", params, {s})[0].tensor("loss");
  };
  CHECK(at::equal(sum({{"keys", {"dice", "focal"}}}), first + second));
  const at::Tensor both = sum({{"keys", {"dice", "focal"}}, {"weights", {2, 0.5}}});
  CHECK(at::equal(both, first * 2 + second * 0.5));
  both.backward();
  CHECK(pred.grad().abs().sum().item<double>() > 0);
  Driver node("sum_losses", {{"keys", {"dice", "focal"}}});
  CHECK(node.node().recordable(Firing()).has_value());
}

TEST_CASE("one weight for all classes weighs each of them, fused or not") {
  Json params = {{"to_onehot_y", true}, {"softmax", true}, {"weight", 0.3}};
  const Pair in = small();
  CHECK(loss_of("dice_ce_loss", params, in) ==
        doctest::Approx(loss_of("dice_ce_loss", params, {in.pred.to(at::kDouble), in.label})));
  params["weight"] = {0.3, 0.3};
  const double both = loss_of("dice_ce_loss", params, in);
  params["weight"] = 0.3;
  CHECK(loss_of("dice_ce_loss", params, in) == both);
}

TEST_CASE("losses have the values of MONAI's documents") {
  const Json soft = {{"to_onehot_y", true}, {"softmax", true}};
  CHECK(loss_of("dice_loss", soft, small()) == doctest::Approx(0.5714364));
  Json seed = soft;
  seed.update({{"squared_pred", true}, {"batch", true}});
  CHECK(loss_of("dice_ce_loss", seed, small()) == doctest::Approx(1.4017618));
  Json current = seed;
  current.update({{"include_background", false}, {"lambda_dice", 0.5}, {"lambda_ce", 0.5}});
  CHECK(loss_of("dice_ce_loss", current, small()) == doctest::Approx(0.6880444));
}

TEST_CASE("sums of soft labels are of magnitudes where the activation goes below 0, as MONAI's") {
  const Pair in{at::tensor({.2, -.5, .7, .4, .9, -.3}, at::kFloat).view({1, 2, 3}),
                at::tensor({.8, 0., .6, .2, 1., .4}, at::kFloat).view({1, 2, 3})};
  const Json as_it_is = {{"soft_label", true}},
             by_tanh = {{"soft_label", true}, {"other_act", "tanh"}};
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-6); };
  CHECK(loss_of("dice_loss", as_it_is, in) == near(0.3705345));
  CHECK(loss_of("tversky_loss", as_it_is, in) == near(0.3705332));
  CHECK(loss_of("generalized_dice_loss", as_it_is, in) == near(0.3744034));
  CHECK(loss_of("dice_loss", by_tanh, in) == near(0.3939634));
  CHECK(loss_of("tversky_loss", by_tanh, in) == near(0.3939620));
  CHECK(loss_of("generalized_dice_loss", by_tanh, in) == near(0.3945240));
}

TEST_CASE("the fused loss and gradient equal LibTorch's operations on a larger volume") {
  const at::Tensor index = (at::arange(2 * 13 * 17 * 11) * 31 % 71 % 5).reshape({2, 1, 13, 17, 11});
  for (const bool squared : {false, true}) {
    TargetOptions options;
    options.to_onehot_y = options.softmax = true;
    const DiceTerm p{.squared_pred = squared};
    at::Tensor x = sines({2, 5, 13, 17, 11}, 1, 4).contiguous(at::MemoryFormat::ChannelsLast3d);
    at::Tensor y = x.to(at::kDouble).contiguous();  // float64 takes the composed path
    x.requires_grad_();
    y.requires_grad_();
    const at::Tensor a = dice_ce(Target(x, index, options), p, 1, 1) * 3;
    const at::Tensor b = dice_ce(Target(y, index, options), p, 1, 1) * 3;
    CHECK(a.item<double>() == doctest::Approx(b.item<double>()).epsilon(1e-6));
    a.backward();
    b.backward();
    CHECK(((x.grad() - y.grad()).norm() / y.grad().norm()).item<double>() < 1e-5);
  }
}

TEST_CASE("sum_loss is the sum, with a gradient of one everywhere") {
  const at::Tensor pred = small().pred.requires_grad_();
  const at::Tensor loss = drive("sum_loss", {}, {sample_of("pred", pred)})[0].tensor("loss");
  CHECK(loss.item<double>() == doctest::Approx(36 * 35 / 20.0 - 36 * 1.5));
  loss.backward();
  CHECK(pred.grad().equal(at::ones_like(pred)));
}

TEST_CASE("a label beyond the classes names value and sample") {
  Pair in = small();
  in.label[1][0][2][1] = 7;
  Sample s = batch(in.pred, in.label);
  auto first = std::make_shared<Meta>(), second = std::make_shared<Meta>();
  first->path = "/data/case_1.nii.gz";
  second->path = "/data/case_2.nii.gz";
  s.set("label", Field(in.label, std::vector<MetaPtr>{first, second}));
  CHECK_THROWS_WITH_AS(drive("dice_ce_loss", {{"to_onehot_y", true}, {"softmax", true}}, {s}),
                       "label value 7.0 in /data/case_2.nii.gz; the network has classes 0 to 1",
                       DataError);
}

TEST_CASE("a label of another shape is refused in words") {
  Pair in = small();
  CHECK_THROWS_WITH_AS(loss_of("dice_loss", {{"softmax", true}}, in),
                       "the label holds class indices: set to_onehot_y", DataError);
  in.label = in.label.narrow(2, 0, 2);
  CHECK_THROWS_WITH_AS(loss_of("dice_loss", {{"to_onehot_y", true}}, in),
                       "label [2, 1, 2, 3] does not fit the output [2, 2, 3, 3]", DataError);
}

TEST_CASE("class indices with fractions are told, since a label was resampled linearly") {
  forget_warnings();
  Pair in = small();
  loss_of("dice_loss", {{"to_onehot_y", true}}, in);
  CHECK(warnings().empty());
  in.label[0][0][1][1] = 0.4;
  loss_of("dice_loss", {{"to_onehot_y", true}}, in);
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0].find("\"label\" has values that are no whole numbers") == 0);
}

TEST_CASE("that softmax and to_onehot_y change nothing of an output of one channel is told") {
  forget_warnings();
  const Pair in = inputs("one");
  const double plain = loss_of("dice_loss", Json::object(), in);
  CHECK(warnings().empty());
  CHECK(loss_of("dice_loss", {{"softmax", true}, {"to_onehot_y", true}}, in) == plain);
  CHECK(warnings() == std::vector<std::string>{"the output has one channel: softmax and "
                                               "to_onehot_y change nothing"});
}

TEST_CASE("tversky_loss' map has a value for each member and class, as MONAI's") {
  const Pair in = small();
  const Json params = {{"to_onehot_y", true}, {"reduction", "none"}};
  const auto map = [&](const std::string& type) {
    return drive(type, params, {batch(in.pred, in.label)}).at(0).tensor("loss");
  };
  CHECK((map("tversky_loss").sizes() == at::IntArrayRef{2, 2}));
  CHECK((map("dice_loss").sizes() == at::IntArrayRef{2, 2, 1, 1}));
}

TEST_CASE("a loss of chosen rows is that of these rows, and of none it is 0 without a gradient") {
  const at::Tensor pred = at::sin(at::arange(4 * 2 * 9, at::kFloat)).view({4, 2, 3, 3});
  const at::Tensor label = pred.gt(0.2).to(at::kFloat);
  const auto of = [&](const at::Tensor& rows, const at::Tensor& p, const at::Tensor& l,
                      Json params) {
    Sample s = sample_of("pred", p);
    s.set("label", Field(l, s.at("pred").meta));
    s.set("annotated", Field(rows, s.at("pred").meta));
    s.set("mask", Field(l.roll(1, 2), s.at("pred").meta));
    return drive("bce_with_logits_loss", params, {s})[0].tensor("loss");
  };
  const Json by_rows{{"rows_key", "annotated"}};
  const at::Tensor two = at::tensor({0, 1, 0, 1}), none = at::zeros({4}, at::kLong);
  const at::Tensor which = at::tensor({1, 3}, at::kLong);
  CHECK(of(two, pred, label, by_rows).item<float>() ==
        of(two, pred.index_select(0, which), label.index_select(0, which), Json::object())
            .item<float>());
  const auto cut = [&](const at::Tensor& t) { return t.index_select(0, which); };
  CHECK(of(two, pred, label, {{"rows_key", "annotated"}, {"mask_key", "mask"}}).item<float>() ==
        of(two, cut(pred), cut(label), {{"mask_key", "mask"}}).item<float>());
  at::Tensor asked = pred.clone().requires_grad_();
  const at::Tensor zero = of(none, asked, label, by_rows);
  CHECK(zero.item<float>() == 0);
  CHECK_FALSE(zero.requires_grad());
  of(two, asked, label, by_rows).backward();
  CHECK(asked.grad()[0].abs().sum().item<float>() == 0);
  CHECK(asked.grad()[1].abs().sum().item<float>() > 0);
  CHECK_THROWS_AS(of(at::zeros({3}), pred, label, by_rows), DataError);
}
