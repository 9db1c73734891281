// ema: a network that is another's running mean.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/run_graph.h"

using namespace sluice;

namespace {

struct Numbers final : Network {
  at::Tensor weight, mean, count = at::zeros({}, at::kLong);
  explicit Numbers(double value, std::int64_t n = 2)
      : weight(at::full({n}, value)), mean(at::full({n}, -value)) {}
  Tensors forward(const Tensors& x, std::size_t) override { return x; }
  Named parameters() const override { return {{"w", weight}}; }
  Named buffers() const override { return {{"mean", mean}, {"count", count}}; }
  void initialise(std::uint64_t) override {}
};

struct Pair {
  std::shared_ptr<Numbers> trained = std::make_shared<Numbers>(1);
  std::shared_ptr<Numbers> mean = std::make_shared<Numbers>(5);
  OpenContext context;
  Pair() {
    context.resources = std::make_shared<Resources>();
    context.resources->add("net", trained);
    context.resources->add("mean", mean);
  }
  Driver open(Json params) {
    params["net"] = "mean";
    params["of"] = "net";
    return Driver("ema", params, context);
  }
  // A step that leaves this weight.
  void step(Driver& node, double weight) {
    trained->weight.fill_(weight);
    trained->mean.fill_(-weight);
    trained->count.add_(1);
    node.fire({Sample()});
  }
  double now() const { return mean->weight[1].item<double>(); }
};

}  // namespace

TEST_CASE("ema begins with the network's weights and follows them by its decay, buffers too") {
  Pair p;
  Driver node = p.open({{"decay", 0.75}});
  CHECK(p.now() == 1);
  double expected = 1;
  for (const double w : {2.0, -3.0, 0.5}) {
    p.step(node, w);
    expected = 0.75 * expected + 0.25 * w;
    CHECK(p.now() == doctest::Approx(expected).epsilon(1e-6));
    CHECK(p.mean->mean[0].item<double>() == doctest::Approx(-expected).epsilon(1e-6));
  }
  CHECK(p.mean->count.item<std::int64_t>() == 3);
}

TEST_CASE("ema begins with the weights that its own network was given") {
  Pair p;
  p.context.resources->add("mean", p.mean, true);
  Driver node = p.open({{"decay", 1.0}});
  p.step(node, 2);
  CHECK(p.now() == 5);
}

TEST_CASE("ema's warm-up forgets the first weights, and goes on where it was saved") {
  Pair p;
  Driver node = p.open({{"decay", 0.3}, {"warmup", true}});
  p.step(node, 2);  // decay 1 / 10
  CHECK(p.now() == doctest::Approx(1.9));
  State state;
  node.node().save(state);
  Driver resumed = p.open({{"decay", 0.3}, {"warmup", true}});
  p.mean->weight.fill_(1.9);
  resumed.node().load(state);
  p.step(resumed, 1);  // 2 / 11
  CHECK(p.now() == doctest::Approx(2.0 / 11 * 1.9 + 9.0 / 11));
  for (int k = 0; k < 5; ++k) p.step(resumed, 1);
  CHECK(resumed.flush()[0].second == 0.3);
}

TEST_CASE("ema behind accumulated gradients moves once a step, the epoch's last with its end") {
  Pair p;
  p.trained->weight.requires_grad_();
  const Json params{{"net", "net"}, {"lr", 1}, {"grad_accumulation", 2}};
  Driver step("sgd", params, p.context), node = p.open({{"decay", 0.75}});
  const auto batch = [&] {
    step.fire({sample_of("loss", p.trained->weight.sum())});
    node.fire({Sample()});
  };
  batch();
  CHECK(p.now() == 1);
  batch();  // the weight is 0 then
  CHECK(p.now() == 0.75);
  batch();
  CHECK(p.now() == 0.75);
  State state;
  node.node().save(state);
  step.flush();  // -1
  node.flush();
  CHECK(p.now() == 0.75 * 0.75 - 0.25);
  Driver resumed = p.open({{"decay", 0.75}});
  p.mean->weight.fill_(0.75);
  resumed.node().load(state);
  resumed.flush();
  CHECK(p.now() == 0.75 * 0.75 - 0.25);
}

TEST_CASE("ema refuses networks of other shapes") {
  Pair p;
  p.context.resources->add("mean", std::make_shared<Numbers>(5, 3));
  CHECK_THROWS_WITH_AS(p.open({}), doctest::Contains("other shapes"), Error);
}
