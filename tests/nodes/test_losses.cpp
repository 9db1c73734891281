// Losses against MONAI 1.6.1 (tests/golden/make_train.py, and the values of its own tests).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/loss/dice_ce.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

struct Pair {
  at::Tensor pred, label;
};

Pair small() {
  return {at::arange(36, at::kFloat).reshape({2, 2, 3, 3}) / 10 - 1.5,
          (at::arange(18).reshape({2, 1, 3, 3}) % 3 == 0).to(at::kFloat)};
}

Pair inputs(const std::string& data) {
  if (data == "a") return small();
  if (data == "one") return {small().pred.narrow(1, 0, 1).contiguous(), small().label};
  const at::Tensor pred = sines({2, 3, 4, 5, 3}, 1, 2);
  const at::Tensor label = (at::arange(120).reshape({2, 1, 4, 5, 3}) * 7 % 3).to(at::kFloat);
  if (data == "b") return {pred, label};
  return {pred, at::one_hot(label.select(1, 0).to(at::kLong), 3).movedim(-1, 1).to(at::kFloat)};
}

Sample batch(const at::Tensor& pred, const at::Tensor& label) {
  Sample s = sample_of("pred", pred);
  s.set("label", Field(label, std::make_shared<const Meta>()));
  return s;
}

double loss_of(const std::string& type, const Json& params, const Pair& in) {
  return drive(type, params, {batch(in.pred, in.label)})[0].tensor("loss").item<double>();
}

}  // namespace

TEST_CASE("losses and their gradients equal MONAI's") {
  for (const auto& c : golden_cases("losses.json")) {
    CAPTURE(c["type"].dump());
    CAPTURE(c["data"].dump());
    CAPTURE(c["params"].dump());
    for (const bool channels_last : {false, true}) {
      CAPTURE(channels_last);
      auto [pred, label] = inputs(c["data"]);
      if (channels_last)
        pred = pred.contiguous(pred.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                               : at::MemoryFormat::ChannelsLast);
      pred.requires_grad_();
      const auto out = drive(c["type"], c["params"], {batch(pred, label)});
      CHECK(out[0].has("label"));
      const at::Tensor loss = out[0].tensor("loss");
      CHECK(loss.item<double>() == doctest::Approx(c["value"].get<double>()).epsilon(1e-5));
      loss.backward();
      const at::Tensor grad = pred.grad().contiguous().flatten();
      const double size = grad.abs().max().item<double>();
      for (std::size_t i = 0; i < c["grad"].size(); ++i)
        CHECK(std::abs(grad[i].item<double>() - c["grad"][i].get<double>()) < 1e-4 * size);
    }
  }
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

TEST_CASE("the fused loss and gradient equal LibTorch's operations on a larger volume") {
  const at::Tensor index = (at::arange(2 * 13 * 17 * 11) * 31 % 71 % 5).reshape({2, 1, 13, 17, 11});
  for (const bool squared : {false, true}) {
    DiceCe p;
    p.to_onehot_y = p.softmax = true;
    p.squared_pred = squared;
    at::Tensor x = sines({2, 5, 13, 17, 11}, 1, 4).contiguous(at::MemoryFormat::ChannelsLast3d);
    at::Tensor y = x.to(at::kDouble).contiguous();  // float64 takes the composed path
    x.requires_grad_();
    y.requires_grad_();
    const at::Tensor a = dice_ce(x, index, p) * 3, b = dice_ce(y, index, p) * 3;
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
                       "label value 7.0 in case_2.nii.gz; the network has classes 0 to 1",
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
