// What is made again changes no bit, and what a plan says of memory is what a pass holds.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <atomic>
#include <set>

#include "engine/base/error.h"
#include "kernels/net/quantize_step.h"
#include "kernels/net/stages.h"
#include "tests/kernels/small_unet.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

using Kind = MemoryPolicy::Kind;

// The bytes that all frames hold at once, at most. Tensors that share memory count once; the
// network's outputs do not count.
class Held {
 public:
  explicit Held(Net& net) {
    net.observer = [this, &net](const Step&, const Frame& f) {
      std::set<const void*> seen;
      std::int64_t bytes = 0;
      const auto count = [&](const at::Tensor& t) {
        if (t.defined() && seen.insert(t.storage().data()).second)
          bytes += static_cast<std::int64_t>(t.storage().nbytes());
      };
      for (const auto& t : f.results) seen.insert(t.storage().data());
      for (int v = 0; v < net.values; ++v)
        if (v != net.outputs[0]) count(f.values[v]);
      for (const auto& t : f.grads) count(t);
      for (const auto& step : f.saved)
        for (const auto& t : step) count(t);
      most = std::max(most, bytes);
    };
  }
  std::int64_t most = 0;
};

struct Trained {
  std::vector<at::Tensor> gradients, buffers;
  std::int64_t held = 0;
  Net::Memory memory;
};

Trained train(const MemoryPolicy& policy, Norm kind, at::ScalarType compute, int threads,
              std::int64_t samples = 2) {
  at::set_num_threads(threads);
  Net net = small_unet(kind, {16, 24, 32}, false, compute);
  net.memory_policy = policy;
  Trained t;
  const Held held(net);
  for (int step = 0; step < 2; ++step) {
    at::manual_seed(7 + static_cast<std::uint64_t>(step));
    const at::Tensor y =
        net.forward({at::randn({samples, 1, 16, 24, 16})}, 1, true, 5 + std::uint64_t(step))[0];
    (y * y).mean().backward();
  }
  for (const auto& p : net.parameters) t.gradients.push_back(p.tensor.grad());
  for (const auto& b : net.buffers) t.buffers.push_back(b.tensor);
  t.held = held.most;
  t.memory = net.memory();
  at::set_num_threads(1);
  return t;
}

void check_equal(const Trained& a, const Trained& b) {
  for (std::size_t i = 0; i < a.gradients.size(); ++i) CHECK(a.gradients[i].equal(b.gradients[i]));
  for (std::size_t i = 0; i < a.buffers.size(); ++i) CHECK(a.buffers[i].equal(b.buffers[i]));
}

}  // namespace

TEST_CASE("a step that makes values again gives the same bits, gradients and running statistics") {
  for (const Norm kind : {Norm::instance, Norm::batch, Norm::group})
    for (const auto compute : {at::kFloat, at::kBFloat16})
      for (const int threads : {1, 2}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(threads);
        if (kind == Norm::group && compute == at::kBFloat16) continue;
        const Trained keep = train({}, kind, compute, threads);
        const Trained again = train({Kind::recompute}, kind, compute, threads);
        check_equal(keep, again);
        CHECK(again.memory.step < 0.75 * static_cast<double>(keep.memory.step));
        CHECK(again.memory.all_kept == keep.memory.step);
        CHECK(again.memory.forward_again > 0);
        CHECK(again.memory.forward_again < 1.5);
      }
}

TEST_CASE("a code that is made again is that of the table as it was, which follows in training") {
  const auto trained = [](bool again) {
    Builder b;
    const Scope s = b.scope();
    const Value x = conv(s / "in", b.input(1, 3), 4, {});
    auto step = std::make_unique<QuantizeStep>();
    step->embedding = s.buffer("table", at::zeros({8, 4}), "table");
    step->cluster_size = s.buffer("size", at::zeros({8}));
    step->sums = s.buffer("sums", at::zeros({8, 4}), "table");
    step->decay = 0.5;
    const Value code = b.append(std::move(step), {x}, {false}, x);
    Net net = b.finish({conv(s / "out", code, 1, {})}, {});
    net.initialise(1);
    divide(net, {.recompute = again});
    at::manual_seed(7);
    const at::Tensor y = net.forward({at::randn({2, 1, 6, 6, 6})}, 1, true, 5)[0];
    (y * y).mean().backward();
    Trained t;
    for (const auto& p : net.parameters) t.gradients.push_back(p.tensor.grad());
    for (const auto& buffer : net.buffers) t.buffers.push_back(buffer.tensor);
    return t;
  };
  check_equal(trained(false), trained(true));
}

TEST_CASE("of a relu what it gives is kept, and not what it was given") {
  Builder b;
  const Scope s = b.scope();
  const Value x = b.input(1, 3);
  Value y = relu(conv(s / "a", x, 8, {}));
  y = relu(y + conv(s / "b", y, 8, {}));
  const Net net = b.finish({conv(s / "c", y, 1, {})}, {});
  const MemoryPlan plan = memory_plan(net, net.schedule(1), net.sizes({{1, 1, 8, 8, 8}}), {}, {});
  CHECK(plan.kept == (1 + 8 + 8) * 512 * 4);
}

TEST_CASE("a light step makes norms again, of what is kept anyway, and no product") {
  for (const Norm kind : {Norm::instance, Norm::batch}) {
    const Trained keep = train({}, kind, at::kFloat, 1);
    const Trained light = train({Kind::light}, kind, at::kFloat, 1);
    check_equal(keep, light);
    CHECK(light.memory.step < 0.95 * static_cast<double>(keep.memory.step));
    CHECK(light.memory.step > train({Kind::recompute}, kind, at::kFloat, 1).memory.step);
    CHECK(light.memory.forward_again > 0);
    CHECK(light.memory.forward_again < 0.2);
  }
}

TEST_CASE("a light step makes a concatenation again where that lowers the peak") {
  Builder b;
  const Scope s = b.scope();
  const Value skip = conv(s / "a", b.input(1, 3), 8, {});
  Value y = concat({skip, conv(s / "b", skip, 8, {})});
  for (const char* name : {"c", "d", "e"}) y = conv(s / name, y, 16, {});
  const Net net = b.finish({y}, {});
  const auto plan = [&](Kind kind) {
    return memory_plan(net, net.schedule(1), net.sizes({{1, 1, 8, 8, 8}}), {kind}, {});
  };
  const MemoryPlan keep = plan(Kind::keep), light = plan(Kind::light);
  CHECK(light.kept == keep.kept - 8 * 512 * 4);  // what the skip does not have
  CHECK(light.peak < keep.peak);
}

// What went to the host reads as NaN there, so a value that is not brought back is seen.
TEST_CASE("a step whose values wait on the host gives the same bits and makes nothing again") {
  for (const Norm kind : {Norm::instance, Norm::batch})
    for (const auto compute : {at::kFloat, at::kBFloat16})
      for (const int threads : {1, 2}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(threads);
        const Trained keep = train({}, kind, compute, threads);
        const Trained away = train({Kind::offload}, kind, compute, threads);
        check_equal(keep, away);
        CHECK(away.memory.step < 0.85 * static_cast<double>(keep.memory.step));
        CHECK(away.memory.all_kept == keep.memory.step);
        CHECK(away.memory.forward_again == 0);
        CHECK(away.memory.moved > 0);
      }
}

TEST_CASE("what a pass holds at most is what its plan says") {
  for (const Kind kind : {Kind::keep, Kind::light, Kind::recompute, Kind::offload}) {
    const Trained t = train({kind}, Norm::instance, at::kFloat, 1, 1);
    CAPTURE(static_cast<int>(kind));
    CAPTURE(t.held);
    CAPTURE(t.memory.step);
    CHECK(std::abs(static_cast<double>(t.held - t.memory.step)) <
          0.02 * static_cast<double>(t.held));
  }
}

TEST_CASE("a budget is kept with as little made again as it has room for") {
  const auto with = [](std::int64_t budget) {
    return train({Kind::automatic, budget}, Norm::instance, at::kFloat, 1);
  };
  const Trained keep = train({}, Norm::instance, at::kFloat, 1);
  const std::int64_t all = keep.memory.step;
  const Trained least = train({Kind::recompute}, Norm::instance, at::kFloat, 1);
  const Trained roomy = with(all), tight = with(all * 8 / 10), floor = with(least.memory.step);
  CHECK(roomy.memory.forward_again == 0);
  CHECK(tight.memory.step <= all * 8 / 10);
  CHECK(tight.memory.forward_again > 0);
  CHECK(tight.memory.forward_again < least.memory.forward_again);
  CHECK(floor.memory.step <= least.memory.step);
  check_equal(keep, tight);
  check_equal(keep, floor);
  const std::string why = message_of([&] { with(least.memory.step / 2); });
  CHECK_MESSAGE(contains(why, "a step's activations need at least " +
                                  bytes_text(least.memory.step) + ", memory_budget is "),
                why);
}

TEST_CASE("a forward pass alone holds less, and says how much") {
  Net net = small_unet(Norm::instance, {16, 24, 32});
  const Held held(net);
  const at::NoGradGuard no_grad;
  net.forward({at::zeros({1, 1, 16, 24, 16})}, 1, false, 0);
  CHECK(std::abs(static_cast<double>(held.most - net.memory().window)) <
        0.02 * static_cast<double>(held.most));
  CHECK(net.memory().step == 0);
}
