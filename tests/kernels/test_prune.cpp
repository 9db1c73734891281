// Channels taken out of small networks: which go, and that what stays is as it was.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <functional>

#include "engine/base/error.h"
#include "kernels/net/builder.h"
#include "kernels/net/ops.h"
#include "kernels/net/prune.h"

using namespace sluice;
using doctest::Contains;

namespace {

using Build = std::function<Value(Scope, Value, std::int64_t wide)>;

Net built(const Build& build, std::int64_t wide) {
  Builder b;
  const Value x = b.input(1, 2);
  Net net = b.finish({build(b.scope(), x, wide)}, {});
  net.initialise(3);
  return net;
}

at::Tensor& parameter(Net& net, const std::string& name) {
  for (auto& p : net.parameters)
    if (p.name == name) return p.tensor;
  throw std::logic_error(name);
}

double apart(Net& a, Net& b) {
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  const at::Tensor x = at::randn({2, 1, 12, 10});
  const at::Tensor y = a.forward({x}, 1, false, 0)[0], z = b.forward({x}, 1, false, 0)[0];
  return ((y - z).abs().max() / y.abs().max()).item<double>();
}

const at::Tensor picture = at::ones({1, 1, 12, 10});

}  // namespace

TEST_CASE("the channels with the largest weights stay") {
  const Build chain = [](Scope s, Value x, std::int64_t wide) {
    return conv(s / "b", relu(conv(s / "a", x, wide)), 2);
  };
  Net whole = built(chain, 4), small = built(chain, 2);
  const at::NoGradGuard no_grad;
  parameter(whole, "a.weight").mul_(at::tensor({1.0, 5.0, 1.0, 3.0}).view({4, 1, 1, 1}));
  const at::Tensor kept = at::tensor({1, 3}, at::kLong);
  const at::Tensor a = parameter(whole, "a.weight").index_select(0, kept),
                   b = parameter(whole, "b.weight").index_select(1, kept);
  prune_into(whole, small, picture);
  CHECK(at::equal(parameter(small, "a.weight"), a));
  CHECK(at::equal(parameter(small, "b.weight"), b));
  CHECK(parameter(whole, "a.weight")[0].abs().max().item<float>() == 0);
  CHECK(apart(whole, small) < 1e-6);
}

TEST_CASE("what a sum ties goes together, and what a concatenation joins goes apart") {
  const Build tied = [](Scope s, Value x, std::int64_t wide) {
    const Value a = prelu(s / "p", norm(s / "n", conv(s / "a", x, wide), {.kind = Norm::instance}));
    const Value b = relu(conv(s / "b", a, wide)) + a;
    const Value c = relu(norm(s / "m", conv(s / "c", b, 2 * wide, {.normed = true})));
    return conv(s / "d", concat({b, c}), 3);
  };
  for (const std::int64_t left : {1, 3, 6}) {
    CAPTURE(left);
    Net whole = built(tied, 6), small = built(tied, left);
    prune_into(whole, small, picture);
    CHECK(apart(whole, small) < 1e-5);
  }
}

TEST_CASE("depthwise and transposed convolutions follow their channels") {
  const Build net = [](Scope s, Value x, std::int64_t wide) {
    const Value a = relu(conv(s / "a", x, wide));
    const Value b = relu(conv(s / "b", a, wide, {.groups = wide}));
    ConvOptions up{.kernel = 2, .stride = 2, .padding = 0};
    up.transposed = true;
    return conv(s / "d", conv(s / "c", b, 2 * wide, up), 2);
  };
  Net whole = built(net, 8), small = built(net, 3);
  prune_into(whole, small, picture);
  CHECK(apart(whole, small) < 1e-5);
}

TEST_CASE("networks whose channels are mixed otherwise are refused") {
  const Build grouped = [](Scope s, Value x, std::int64_t wide) {
    return conv(s / "b", norm(s / "n", conv(s / "a", x, wide), {.kind = Norm::group, .groups = 2}),
                2);
  };
  Net whole = built(grouped, 8), small = built(grouped, 4);
  CHECK_THROWS_WITH_AS(prune_into(whole, small, picture), Contains("its steps mix channels"),
                       Error);
  const Build shuffled = [](Scope s, Value x, std::int64_t wide) {
    return conv(s / "b",
                conv(s / "a", x, wide)
                    .op("halved", [](In t) { return t[0].narrow(1, 0, t[0].size(1) / 2); },
                        {.channels = wide / 2}),
                2);
  };
  const auto of_signals = [](std::int64_t wide) {
    Builder b;
    const Value x = b.input(1, 1);
    return b.finish({conv(b.scope() / "b", conv(b.scope() / "a", x, wide), 2)}, {});
  };
  Net signals = of_signals(8), few = of_signals(4);
  CHECK_THROWS_WITH_AS(prune_into(signals, few, at::ones({1, 1, 12})),
                       Contains("(conv_1d a) cannot be pruned: 1-D convolutions are not pruned"),
                       Error);
  Net other = built(shuffled, 8), less = built(shuffled, 4);
  CHECK_THROWS_WITH_AS(prune_into(other, less, picture), Contains("(halved) cannot be pruned"),
                       Error);
}
