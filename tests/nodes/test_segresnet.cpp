// What SegResNet promises; MONAI's numbers for it are with test_networks.cpp.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

std::shared_ptr<Network> make(const Json& params) {
  return Registry::global().make_network("segresnet", params);
}

const Json small_segresnet{{"spatial_dims", 3},     {"init_filters", 8}, {"in_channels", 1},
                           {"blocks_down", {1, 1}}, {"blocks_up", {1}},  {"dropout_prob", 0.5}};

}  // namespace

TEST_CASE("segresnet drops whole channels by the pass's key, and none outside training") {
  const auto net = make(small_segresnet);
  net->initialise(1);
  const at::Tensor x = sines({2, 1, 4, 4, 4});
  const auto pass = [&](bool train, std::uint64_t key) {
    net->train(train);
    net->key_draws(key);
    return net->forward(x).detach();
  };
  CHECK(at::equal(pass(true, 5), pass(true, 5)));
  CHECK_FALSE(at::equal(pass(true, 5), pass(true, 6)));
  CHECK(at::equal(pass(false, 5), pass(false, 6)));
}

TEST_CASE("segresnet computes in bfloat16 if told so, and answers in float32") {
  Json half = small_segresnet;
  half["precision"] = "bfloat16";
  const auto a = make(small_segresnet), b = make(half);
  a->initialise(3);
  b->initialise(3);
  const at::Tensor x = sines({1, 1, 8, 8, 8}), y = a->forward(x), z = b->forward(x);
  CHECK((z.scalar_type() == at::kFloat));
  const double error = ((y - z).norm() / y.norm()).item<double>();
  CHECK(error < 0.03);
  CHECK(error > 0);
}

TEST_CASE("segresnet refuses what it cannot halve") {
  CHECK_THROWS_AS(make(small_segresnet)->forward(at::zeros({1, 1, 5, 4, 4})), DataError);
  CHECK_THROWS_AS(make(small_segresnet)->forward(at::zeros({1, 2, 4, 4, 4})), DataError);
}
