// A network in parts has the bits of the whole, on one device and on several, and says what each
// part takes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "kernels/net/stages.h"
#include "tests/kernels/small_unet.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

struct Trained {
  std::vector<at::Tensor> all;  // outputs, gradients, buffers
  std::vector<StageFigures> figures;
  Net::Memory memory;
};

Trained train(const NetDivision& division, Norm kind, int devices = 1, int threads = 1) {
  at::set_num_threads(threads);
  Net net = small_unet(kind, {8, 12, 16}, true);
  divide(net, division);
  if (devices > 1) net.spread(std::vector<at::Device>(static_cast<std::size_t>(devices), at::kCPU));
  Trained t;
  for (int step = 0; step < 2; ++step) {
    at::manual_seed(7 + static_cast<std::uint64_t>(step));
    const at::Tensor x = at::randn({4, 1, 16, 8, 16}).requires_grad_();
    const auto y = net.forward({x}, 2, true, 5 + std::uint64_t(step));
    ((y[0] * y[0]).mean() + (y[1] * y[1]).mean()).backward();
    for (const auto& one : {y[0].detach(), y[1].detach(), x.grad()}) t.all.push_back(one);
  }
  for (const auto& p : net.parameters) t.all.push_back(p.tensor.grad());
  for (const auto& b : net.buffers) t.all.push_back(b.tensor);
  t.figures = stage_figures(net);
  t.memory = net.memory();
  at::set_num_threads(1);
  return t;
}

void check_equal(const Trained& a, const Trained& b) {
  REQUIRE(a.all.size() == b.all.size());
  for (std::size_t i = 0; i < a.all.size(); ++i) {
    CAPTURE(i);
    CHECK(a.all[i].equal(b.all[i]));
  }
}

}  // namespace

TEST_CASE("a network in stages has the bits of the whole one: outputs, gradients, statistics") {
  for (const Norm kind : {Norm::instance, Norm::batch})
    for (const int chunks : {0, 3}) {
      const Trained whole = train({.chunks = chunks}, kind);
      CHECK(whole.figures.empty());
      for (const int stages : {2, 4, 7})
        for (const bool recompute : {false, true}) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(chunks);
          CAPTURE(stages);
          const NetDivision division{.stages = stages, .chunks = chunks, .recompute = recompute};
          const Trained parts = train(division, kind);
          CHECK(parts.figures.size() == static_cast<std::size_t>(stages));
          check_equal(whole, parts);
          // Devices take turns as one thread would, whatever the threads of a step.
          check_equal(whole, train(division, kind, 4, 2));
        }
    }
}

TEST_CASE("step threads share a network in stages as they share a whole one") {
  check_equal(train({}, Norm::instance, 1, 2),
              train({.stages = 4, .recompute = true}, Norm::instance, 1, 2));
}

TEST_CASE("a stage that is done again keeps what comes into it, and takes less than the whole") {
  const Trained whole = train({.chunks = 4}, Norm::instance),
                kept = train({.stages = 4, .chunks = 4}, Norm::instance),
                again = train({.stages = 4, .chunks = 4, .recompute = true}, Norm::instance);
  CHECK(kept.memory.all_kept == whole.memory.step);
  CHECK(kept.memory.forward_again == 0);
  CHECK(static_cast<double>(again.memory.step) < 0.6 * static_cast<double>(whole.memory.step));
  CHECK(again.memory.forward_again > 0.5);
  CHECK(again.memory.forward_again <= 1);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(again.figures[i].peak < whole.memory.step);
    CHECK(again.figures[i].kept <= 4 * again.figures[i].comes + 4096);  // batch statistics, slopes
    CHECK(kept.figures[i].kept >= again.figures[i].kept);
  }
  CHECK(again.figures[0].comes == 4 * 16 * 8 * 16);
}

// Every tensor that frames hold, of one memory.
TEST_CASE("what the stages of a pass hold at most is what their figures say") {
  for (const bool recompute : {false, true}) {
    Net net = small_unet(Norm::instance, {8, 12, 16}, true);
    divide(net, {.stages = 3, .recompute = recompute});
    std::set<const Frame*> frames;
    std::int64_t most = 0;
    net.observer = [&](const Step&, const Frame& frame) {
      frames.insert(&frame);
      std::set<const void*> seen;
      std::int64_t bytes = 0;
      const auto count = [&](const at::Tensor& t) {
        if (t.defined() && seen.insert(t.storage().data()).second)
          bytes += static_cast<std::int64_t>(t.storage().nbytes());
      };
      for (const auto& t : frame.results) seen.insert(t.storage().data());
      for (const Frame* f : frames) {
        for (std::size_t v = 0; v < f->values.size(); ++v)
          if (static_cast<int>(v) != net.outputs[0]) count(f->values[v]);
        for (const auto& t : f->grads) count(t);
        for (const auto& step : f->saved)
          for (const auto& t : step) count(t);
      }
      most = std::max(most, bytes);
    };
    const auto y = net.forward({at::randn({1, 1, 16, 16, 16})}, 1, true, 0)[0];
    (y * y).mean().backward();
    CAPTURE(recompute);
    CAPTURE(most);
    CAPTURE(net.memory().step);
    CHECK(std::abs(static_cast<double>(most - net.memory().step)) <
          0.1 * static_cast<double>(most));
  }
}

TEST_CASE("cuts balance the dearest stage, by the list or by times") {
  Net net = small_unet(Norm::instance, {8, 12, 16}, true);
  const std::vector<std::int64_t> bytes(static_cast<std::size_t>(net.values), 4);
  std::vector<double> costs(net.steps.size(), 1);
  const auto n = static_cast<int>(net.steps.size());
  const auto cuts = balanced_cuts(net, 4, costs, bytes);
  REQUIRE(cuts.size() == 3);
  const int most = (n + 3) / 4;
  CHECK(std::is_sorted(cuts.begin(), cuts.end()));
  CHECK(cuts[0] <= most);
  CHECK(cuts[1] - cuts[0] <= most);
  CHECK(cuts[2] - cuts[1] <= most);
  CHECK(n - cuts[2] <= most);
  costs[2] = 100;  // has a stage of its own but for what costs less than another one
  const auto around = balanced_cuts(net, 3, costs, bytes);
  CHECK(around == std::vector<int>{2, 3});
  divide(net, {.stages = n / 2});
  CHECK(stage_cuts(net, {{1, 1, 16, 16, 16}}).size() == static_cast<std::size_t>(n / 2 - 1));
}

TEST_CASE("stages that a network has not are refused") {
  const auto why = [](const NetDivision& division) {
    Net net = small_unet(Norm::instance, {8, 12, 16}, true);
    return message_of([&] { divide(net, division); });
  };
  CHECK(contains(why({.stages = 1000}), "stages is 1000, but the network can be cut into "));
  CHECK(contains(why({.layers = {"lowe"}}), "stages: no layer is called \"lowe\""));
  CHECK(contains(why({.layers = {""}}), "no layer is called \"\""));
  CHECK(contains(why({.layers = {"low", "down"}}), "\"down\" does not come after \"low\""));
  CHECK(contains(why({.layers = {"top.c1"}}), "\"top.c1\" begins the network"));
  CHECK(why({.layers = {"down", "up"}}).empty());
  Net away = small_unet(Norm::instance, {8, 12, 16}, true);
  away.memory_policy.kind = MemoryPolicy::Kind::offload;
  CHECK(contains(message_of([&] { divide(away, {.stages = 2}); }),
                 "stages and memory \"offload\" do not go together"));
  divide(away, {.chunks = 2});
  Net net = small_unet(Norm::instance, {8, 12, 16}, true);
  divide(net, {.stages = 2});
  CHECK(contains(message_of([&] {
                   net.spread({at::Device(at::kCUDA, 0), at::Device(at::kCUDA, 1)});
                 }),
                 "stages on several GPUs are not there yet"));
}

// Stages that take equally long, on devices that sleep instead of working. A loaded machine makes
// some of them late, so the best of a few tries counts, and they end with the first good one.
TEST_CASE("stages on devices of their own wait as the formula says") {
  constexpr int stages = 4, micro_batches = 8;
  Builder b;
  const Scope s = b.scope();
  Value y = b.input(1, 2);
  for (int i = 0; i < stages; ++i)
    y = conv(s / ("c" + std::to_string(i)), y, 1).op("gelu", [](In t) { return at::gelu(t[0]); });
  double best = 1;
  const double expected = expected_bubble(stages, micro_batches);
  Net net = b.finish({y}, {});
  CHECK(expected == doctest::Approx(3.0 / 11));
  net.initialise(1);
  divide(net, {.layers = {"c1", "c2", "c3"}, .chunks = micro_batches});
  net.spread(std::vector<at::Device>(stages, at::kCPU));
  net.observer = [](const Step&, const Frame&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  for (int i = 0; i < 20 && std::abs(best / expected - 1) > 0.1; ++i) {
    net.forward({at::randn({8, 1, 8, 8})}, 1, true, 0)[0].sum().backward();
    const double bubble = measured_bubble(net).value();
    if (std::abs(bubble - expected) < std::abs(best - expected)) best = bubble;
  }
  MESSAGE("waited " << best << ", formula " << expected);
  CHECK(std::abs(best / expected - 1) <= 0.1);
}
