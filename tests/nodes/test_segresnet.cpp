// SegResNet against MONAI 1.6.1 (tests/golden/make_train.py) and its own promises.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

std::shared_ptr<Network> make(const Json& params) {
  return Registry::global().make_network("segresnet", params);
}

at::Tensor named(const Network& net, const std::string& name) {
  for (const auto& [other, p] : net.parameters())
    if (other == name) return p;
  FAIL("no parameter " << name);
  return {};
}

// In MONAI's order of the names, which is not that of the forward pass.
void fill_with_sines(Network& net, const Json& names) {
  at::NoGradGuard no_grad;
  double k = 1;
  for (const std::string name : names) {
    at::Tensor p = named(net, name);
    p.copy_(sines(p.sizes(), k, 0.1));
    k += static_cast<double>(p.numel());
  }
}

const Json small{{"spatial_dims", 3},     {"init_filters", 8}, {"in_channels", 1},
                 {"blocks_down", {1, 1}}, {"blocks_up", {1}},  {"dropout_prob", 0.5}};

}  // namespace

TEST_CASE("segresnet has MONAI's parameter names and counts") {
  for (const auto& c : golden_cases("segresnet.json")) {
    const auto net = make(c["args"]);
    std::int64_t count = 0;
    std::set<std::string> names;
    for (const auto& [name, p] : net->parameters()) count += p.numel(), names.insert(name);
    CHECK(count == c["count"].get<std::int64_t>());
    CHECK(names == c["parameters"].get<std::set<std::string>>());
  }
}

TEST_CASE("segresnet's output and gradients equal MONAI's for weights filled with sines") {
  int tried = 0;
  for (const auto& c : golden_cases("segresnet.json")) {
    if (!c.contains("size")) continue;
    CAPTURE(c["args"].dump());
    const auto net = make(c["args"]);
    fill_with_sines(*net, c["parameters"]);
    net->train(true);
    std::vector<std::int64_t> shape{2, c["args"]["in_channels"].get<std::int64_t>()};
    for (const auto& s : c["size"]) shape.push_back(s);
    at::Tensor x = sines(shape).requires_grad_();
    const at::Tensor y = net->forward(x);
    const double size = c["abs"].get<double>() / static_cast<double>(y.numel());
    const at::Tensor first = y.detach().contiguous().flatten().narrow(0, 0, 24);
    for (int i = 0; i < 24; ++i)
      CHECK(first[i].item<double>() ==
            doctest::Approx(c["first"][i].get<double>()).epsilon(1e-4).scale(size));
    (y * sines(y.sizes(), 5)).sum().backward();
    for (std::size_t i = 0; i < c["parameters"].size(); ++i) {
      const std::string name = c["parameters"][i];
      CAPTURE(name);
      CHECK(named(*net, name).grad().to(at::kDouble).norm().item<double>() ==
            doctest::Approx(c["grads"][i].get<double>()).epsilon(2e-4));
    }
    CHECK(x.grad().to(at::kDouble).norm().item<double>() ==
          doctest::Approx(c["input_grad"].get<double>()).epsilon(2e-4));
    ++tried;
  }
  CHECK(tried == 2);
}

TEST_CASE("segresnet drops whole channels by the pass's key, and none outside training") {
  const auto net = make(small);
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
  Json half = small;
  half["precision"] = "bfloat16";
  const auto a = make(small), b = make(half);
  a->initialise(3);
  b->initialise(3);
  const at::Tensor x = sines({1, 1, 8, 8, 8}), y = a->forward(x), z = b->forward(x);
  CHECK((z.scalar_type() == at::kFloat));
  const double error = ((y - z).norm() / y.norm()).item<double>();
  CHECK(error < 0.03);
  CHECK(error > 0);
}

TEST_CASE("segresnet refuses what it cannot halve") {
  CHECK_THROWS_AS(make(small)->forward(at::zeros({1, 1, 5, 4, 4})), DataError);
  CHECK_THROWS_AS(make(small)->forward(at::zeros({1, 2, 4, 4, 4})), DataError);
}
