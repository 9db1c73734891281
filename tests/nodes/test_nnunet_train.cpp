// The losses and the online Dice that nnU-Net trains with.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "tests/nodes/drive.h"

using namespace sluice;

namespace {

// Sample n of the golden batch: the golden image times 1 + 0.3 n, and its label moved on by n.
Sample golden_batch(int channels) {
  at::Tensor x = at::zeros({2, channels, 6, 7, 5}), y = at::zeros({2, 1, 6, 7, 5});
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 7; ++j)
        for (int k = 0; k < 5; ++k) {
          for (int c = 0; c < channels; ++c)
            x[n][c][i][j][k] =
                (std::sin(1 + 0.7 * i + 1.3 * j + 0.4 * k + 2 * c) + 0.1 * i - 0.05 * j * k) *
                (1 + 0.3 * n);
          y[n][0][i][j][k] = ((i + 2 * j + k) / 4 % 3 + n) % 3;
        }
  Sample s = sample_of("pred", x);
  s.set("label", sample_of("label", y).at("label"));
  return s;
}

double loss(Json params, int channels) {
  params.update({{"to_onehot_y", true}, {"softmax", true}, {"include_background", false}});
  return drive("dice_ce_loss", params, {golden_batch(channels)})
      .at(0)
      .tensor("loss")
      .item<double>();
}

Sample patches(const at::Tensor& pred, const at::Tensor& label) {
  Sample s = sample_of("pred", pred);
  s.set("label", sample_of("label", label).at("label"));
  return s;
}

std::map<std::string, double> by_name(const std::vector<std::pair<std::string, double>>& metrics) {
  return {metrics.begin(), metrics.end()};
}

}  // namespace

TEST_CASE("dice_ce_loss is nnU-Net's loss and 1, by sample, by batch and with an ignored label") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  std::ifstream file(std::filesystem::path(root) / "nnunet_golden.json");
  const Json g = Json::parse(file)["loss"];
  CHECK(loss(Json::object(), 3) == doctest::Approx(1 + g["dice_ce"].get<double>()).epsilon(1e-6));
  CHECK(loss({{"batch", true}}, 3) ==
        doctest::Approx(1 + g["batch_dice_ce"].get<double>()).epsilon(1e-6));
  CHECK(loss({{"ignore_index", 2}, {"batch", true}}, 2) ==
        doctest::Approx(1 + g["ignore_label_2"].get<double>()).epsilon(1e-6));
}

TEST_CASE("dice_ce_loss gives what it ignores no gradient") {
  const Sample in = golden_batch(2);
  const at::Tensor pred = in.tensor("pred").clone().requires_grad_();
  Sample s = sample_of("pred", pred);
  s.set("label", in.at("label"));
  drive("dice_ce_loss", {{"to_onehot_y", true}, {"softmax", true}, {"ignore_index", 2}}, {s})
      .at(0)
      .tensor("loss")
      .backward();
  const at::Tensor ignored = in.tensor("label").eq(2).expand_as(pred);
  CHECK(pred.grad().masked_select(ignored).abs().max().item<double>() == 0);
  CHECK(pred.grad().masked_select(ignored.logical_not()).abs().min().item<double>() > 0);
}

TEST_CASE("patch_dice is one Dice over an epoch's patches, and its ema goes on over epochs") {
  // Class 1: in both 1, predicted 2, true 2; class 2: in both 1, predicted 1, true 1.
  const at::Tensor index = at::tensor({0, 1, 1, 2, 1, 0, 0, 0}).view({2, 1, 4, 1});
  const at::Tensor truth = at::tensor({0, 1, 0, 2, 0, 0, 0, 1}).view({2, 1, 4, 1});
  const at::Tensor pred = at::zeros({2, 3, 4, 1}).scatter_(1, index, 5.0);
  Driver node("patch_dice", Json::object());
  (void)node.fire({patches(pred, truth)}, at_index(0));
  const std::map<std::string, double> first = by_name(node.flush(0));
  const double one = 2.0 * 1 / (3 + 2), two = 1;
  CHECK(first.at("class_1") == doctest::Approx(one));
  CHECK(first.at("class_2") == doctest::Approx(two));
  CHECK(first.at("mean") == doctest::Approx((one + two) / 2));
  CHECK(first.at("ema") == doctest::Approx((one + two) / 2));
  // A perfect epoch, half of it before a checkpoint; a class that is nowhere does not count.
  const at::Tensor right = at::zeros({2, 3, 4, 1}).scatter_(1, truth.clamp(0, 1), 5.0);
  (void)node.fire({patches(right, truth.clamp(0, 1))}, at_index(0));
  State state;
  node.node().save(state);
  Driver other("patch_dice", Json::object());
  other.node().load(state);
  (void)other.fire({patches(right, truth.clamp(0, 1))}, at_index(1));
  const std::map<std::string, double> second = by_name(other.flush(1));
  CHECK(second.at("mean") == doctest::Approx(1));
  CHECK(std::isnan(second.at("class_2")));
  CHECK(second.at("ema") == doctest::Approx(0.9 * (one + two) / 2 + 0.1));
}

TEST_CASE("patch_dice of regions leaves out what the label's last channel marks") {
  const at::Tensor pred = at::tensor({5., 5., -5., 5., 5., -5., -5., -5.}).view({1, 2, 4, 1});
  const at::Tensor label =
      at::tensor({1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1}, at::kByte).view({1, 3, 4, 1});
  Driver node("patch_dice", {{"argmax", false}, {"ignore_label", 2}});
  (void)node.fire({patches(pred, label)}, at_index(0));
  const auto found = by_name(node.flush(0));
  CHECK(found.at("class_0") == doctest::Approx(2.0 / 4));  // of three voxels: 1 of 2 and 2
  CHECK(found.at("class_1") == doctest::Approx(2.0 / 3));
  CHECK_FALSE(found.contains("class_2"));
  const auto fire = [&](const Json& params, const at::Tensor& given) {
    Driver other("patch_dice", params);
    (void)other.fire({patches(pred, given)}, at_index(0));
  };
  CHECK_THROWS_WITH_AS(fire({{"argmax", false}, {"ignore_label", 3}}, label),
                       "ignore_label is 3; of 2 regions the label's channel 2 says what is ignored",
                       Error);
  CHECK_THROWS_AS(fire({{"argmax", false}}, label), DataError);
  CHECK_THROWS_AS(fire({{"argmax", false}}, label.narrow(1, 0, 1)), DataError);
  CHECK_THROWS_AS(fire({{"argmax", false}}, label.narrow(1, 0, 2).narrow(2, 0, 3)), DataError);
  CHECK_THROWS_AS(fire(Json::object(), label), DataError);
}

TEST_CASE(
    "dice_metric of regions leaves out what the label's last channel marks, and is no class") {
  const at::Tensor pred = at::tensor({1, 1, 0, 1, 1, 0, 0, 0}, at::kByte).view({1, 2, 4, 1});
  const at::Tensor label =
      at::tensor({1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1}, at::kByte).view({1, 3, 4, 1});
  Json params{{"argmax", false}, {"ignore_index", 2}, {"spatial_dims", 2}};
  Driver node("dice_metric", params);
  (void)node.fire({patches(pred, label)}, at_index(0));
  const auto found = by_name(node.flush(0));
  CHECK(found.at("class_0") == doctest::Approx(2.0 / 4));
  CHECK(found.at("class_1") == doctest::Approx(2.0 / 3));
  CHECK_FALSE(found.contains("class_2"));
  params["ignore_index"] = 3;
  Driver other("dice_metric", params);
  CHECK_THROWS_AS((void)other.fire({patches(pred, label)}, at_index(0)), DataError);
}

// Of nnunetv2 2.8.1's DC_and_BCE_loss with use_ignore_label, on this batch; what is ignored lies
// where i + j + k is a multiple of 4.
TEST_CASE("dice_focal_loss is nnU-Net's loss of regions and 1, with an ignored label") {
  const at::Tensor where =
      (at::arange(6).view({6, 1, 1}) + at::arange(7).view({7, 1}) + at::arange(5))
          .remainder(4)
          .eq(0);
  const auto of = [&](std::int64_t regions, bool batch, const at::Tensor& ignored) {
    const Sample in = golden_batch(2);
    const at::Tensor given = in.tensor("label").masked_fill(where, 3);
    std::vector<at::Tensor> channels{given.eq(1).logical_or(given.eq(2)), given.eq(2)};
    channels.resize(static_cast<std::size_t>(regions));
    channels.push_back(ignored.expand_as(given));
    const at::Tensor x = in.tensor("pred").narrow(1, 0, regions).clone().requires_grad_();
    const Json params{{"sigmoid", true}, {"gamma", 0}, {"batch", batch}, {"ignore_index", regions}};
    const at::Tensor loss =
        drive("dice_focal_loss", params, {patches(x, at::cat(channels, 1).to(at::kByte))})
            .at(0)
            .tensor("loss");
    loss.backward();
    CHECK(x.grad().masked_select(ignored.expand_as(x)).abs().max().item<double>() == 0);
    return loss.item<double>();
  };
  CHECK(of(2, false, where) == doctest::Approx(1 + 1.1005346774).epsilon(1e-6));
  CHECK(of(2, true, where) == doctest::Approx(1 + 1.1004935503).epsilon(1e-6));
  CHECK(of(1, true, where) == doctest::Approx(1 + 0.4423340559).epsilon(1e-6));
  CHECK(of(2, true, at::ones_like(where)) == 0);
}

TEST_CASE("patch_dice in merged parts is that of all patches") {
  const Sample in = golden_batch(3);
  const auto part = [&](std::int64_t i) {
    return patches(in.tensor("pred").narrow(0, i, 1), in.tensor("label").narrow(0, i, 1));
  };
  Driver whole("patch_dice", Json::object()), one("patch_dice", Json::object()),
      other("patch_dice", Json::object());
  (void)whole.fire({in}, at_index(0));
  (void)one.fire({part(0)}, at_index(0));
  (void)other.fire({part(1)}, at_index(1));
  State state;
  other.node().save(state);
  one.node().merge(state);
  CHECK(by_name(one.flush(0)) == by_name(whole.flush(0)));
}

TEST_CASE("labels_to_regions makes a channel of each region, which may overlap") {
  const Sample in = sample_of("label", at::tensor({0, 1, 2, 3}).view({1, 2, 2}));
  const Sample out =
      drive("labels_to_regions", {{"regions", {{1, 2, 3}, {2, 3}, {3}}}}, {in}).at(0);
  CHECK(at::equal(out.tensor("label"),
                  at::tensor({0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1}, at::kByte).view({3, 2, 2})));
  CHECK_THROWS_AS(drive("labels_to_regions", {{"regions", {{1}}}}, {out}), DataError);
}

TEST_CASE("mask_intensity keeps what is not negative in a label that is -1 outside") {
  Sample in = sample_of("image", at::full({2, 1, 3}, 7.0f));
  in.set("label", sample_of("label", at::tensor({-1, 0, 2}).view({1, 1, 3})).at("label"));
  const Json params{{"mask_key", "label"}, {"select_fn", "is_not_negative"}};
  CHECK(at::equal(drive("mask_intensity", params, {in}).at(0).tensor("image")[1],
                  at::tensor({0.0f, 7.0f, 7.0f}).view({1, 3})));
}
