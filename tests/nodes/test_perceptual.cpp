// perceptual_loss beside MONAI's PerceptualLoss (tests/golden/make_perceptual.py).
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/state/resource.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

OpenContext with_network(std::shared_ptr<Network> net) {
  OpenContext context;
  context.training = true;
  context.resources = std::make_shared<Resources>();
  context.resources->add("features", std::move(net));
  return context;
}

Sample images(const at::Tensor& pred, const at::Tensor& truth) {
  Sample s = sample_of("pred", pred);
  s.set("label", Field(truth, std::make_shared<const Meta>()));
  return s;
}

// Its features are twice the image.
struct Plain final : Network {
  std::size_t seen = 0, slices = 0;
  bool trains = true;
  Tensors forward(const Tensors& x, std::size_t) override {
    ++seen;
    slices += static_cast<std::size_t>(x[0].size(0));
    return {x[0] * 2};
  }
  void train(bool on) override { trains = on; }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
};

}  // namespace

TEST_CASE("perceptual_loss and its gradient equal MONAI's, of pictures and of volumes' slices") {
  const std::shared_ptr<Network> net =
      Registry::global().make_network("torchvision_features", Json::object());
  fill(*net);
  for (const Json& c : golden_cases("perceptual.json")) {
    CAPTURE(c["size"].dump());
    const auto size = c["size"].get<std::vector<std::int64_t>>();
    const at::Tensor pred = (0.5 + sines(size, 1, 20)).requires_grad_();
    Driver node("perceptual_loss", {{"net", "features"}, {"fake_3d_ratio", 1}}, with_network(net));
    const at::Tensor loss =
        node.fire({images(pred, 0.5 + sines(size, 3, 0.4))}).samples().at(0).tensor("loss");
    CHECK(loss.item<double>() == doctest::Approx(c["value"].get<double>()).epsilon(1e-4));
    loss.backward();
    const at::Tensor grad = pred.grad().flatten();
    const double largest = grad.abs().max().item<double>();
    for (std::size_t i = 0; i < c["grad"].size(); ++i)
      CHECK(std::abs(grad[i].item<double>() - c["grad"][i].get<double>()) < 1e-3 * largest);
  }
}

TEST_CASE("perceptual_loss asks a network at rest, of volumes for as many slices as it is told") {
  const auto net = std::make_shared<Plain>();
  Driver node("perceptual_loss", {{"net", "features"}, {"fake_3d_ratio", 0.25}}, with_network(net));
  const at::Tensor truth = at::rand({2, 1, 8, 6, 4});
  const auto fired = node.fire({images(truth, truth)});
  CHECK(fired.samples().at(0).tensor("loss").item<double>() == 0);
  CHECK_FALSE(net->trains);
  CHECK(net->seen == 6);                  // image and truth, along three axes
  CHECK(net->slices == 2 * (4 + 3 + 2));  // a quarter of 16, 12 and 8
  Driver none("perceptual_loss", {{"net", "features"}, {"fake_3d_ratio", 0}}, with_network(net));
  net->slices = 0;
  none.fire({images(truth, truth)});
  CHECK(net->slices == 2 * 3);  // one at least
}

TEST_CASE("perceptual_loss refuses images that its network cannot take, or that do not fit") {
  Driver node("perceptual_loss", {{"net", "features"}}, with_network(std::make_shared<Plain>()));
  CHECK_THROWS_WITH_AS(node.fire({images(at::ones({1, 2, 8, 8}), at::ones({1, 2, 8, 8}))}),
                       "the images [1, 2, 8, 8] are no [N, 1 or 3, X, Y(, Z)]: the network takes "
                       "pictures of 3 channels",
                       DataError);
  CHECK_THROWS_WITH_AS(node.fire({images(at::ones({1, 1, 8, 8}), at::ones({1, 1, 8, 9}))}),
                       "\"label\" [1, 1, 8, 9] has not the shape of the images, [1, 1, 8, 8]",
                       DataError);
}
