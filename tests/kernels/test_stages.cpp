// A network in parts has the bits of the whole, on one device and on several, and says what each
// part takes. Several devices are places on the host, which copy as others would.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "engine/base/error.h"
#include "kernels/base/team.h"
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

Net divided(const NetDivision& division, Norm kind, int devices) {
  Net net = small_unet(kind, {8, 12, 16}, true);
  divide(net, division);
  net.spread(std::vector<at::Device>(static_cast<std::size_t>(devices), at::kCPU));
  return net;
}

const Step::Size image_size{4, 1, 16, 8, 16};

// Both outputs and the input's gradient.
std::vector<at::Tensor> one_step(Net& net, std::uint64_t number) {
  at::manual_seed(7 + number);
  const at::Tensor x = at::randn(image_size).requires_grad_();
  const auto y = net.forward({x}, 2, true, 5 + number);
  ((y[0] * y[0]).mean() + (y[1] * y[1]).mean()).backward();
  return {y[0].detach(), y[1].detach(), x.grad()};
}

Trained train(const NetDivision& division, Norm kind, int devices = 1, int threads = 1) {
  at::set_num_threads(threads);
  Net net = divided(division, kind, devices);
  Trained t;
  for (const std::uint64_t number : {0, 1})
    for (auto& one : one_step(net, number)) t.all.push_back(std::move(one));
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

TEST_CASE("skips may cross several devices, and a device may have several stages") {
  const Trained whole = train({.chunks = 2}, Norm::batch);
  for (const bool recompute : {false, true})
    for (const int devices : {2, 3, 7, 9}) {
      CAPTURE(recompute);
      CAPTURE(devices);
      const NetDivision division{.stages = 7, .chunks = 2, .recompute = recompute};
      check_equal(whole, train(division, Norm::batch, devices));
    }
}

TEST_CASE("what two stages read may be cut where one device does both, and not where two do") {
  // A convolution's bias is known to the norm behind it.
  const NetDivision division{.layers = {"top.n1", "down", "up"}, .chunks = 2};
  check_equal(train({.chunks = 2}, Norm::batch), train(division, Norm::batch, 2));
  Net net = divided(division, Norm::batch, 4);
  for (int again = 0; again < 2; ++again)
    CHECK(contains(message_of([&] { one_step(net, 0); }),
                   "is read in the stages 0 and 1, which are on different devices"));
}

TEST_CASE("devices that find the team busy do their stages in turn, forward and backward") {
  const NetDivision division{.stages = 4, .chunks = 2};
  const Trained whole = train(division, Norm::batch);
  team_run(2, [&](int thread) {
    if (thread == 0) check_equal(whole, train(division, Norm::batch, 4));
  });
}

// Stages are on devices of their own.
static int device_of(const Net& net, int step) {
  const auto cuts = stage_cuts(net, {image_size});
  return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), step) - cuts.begin());
}

TEST_CASE("a device has copies of what its own steps read, prepared for them, and no others") {
  constexpr int devices = 3;
  Net net = divided({.stages = devices, .chunks = 2}, Norm::batch, devices);
  std::vector<std::set<int>> weights(devices), buffers(devices);
  for (const auto& s : net.steps) {
    const int device = device_of(net, s->number);
    for (const int p : s->parameters()) weights[device].insert(p);
    for (const int b : s->buffers()) buffers[device].insert(b);
  }
  for (const auto& read : weights) CHECK(read.size() < net.parameters.size());
  std::atomic<int> seen = 0, wrong = 0;
  net.observer = [&](const Step& s, const Frame& f) {
    const int device = device_of(net, s.number);
    for (const auto& other : net.steps)
      if (device_of(net, other->number) != device && f.replica->prepared[other->number]) ++wrong;
    if (device == 0) return;
    ++seen;
    for (int p = 0; p < static_cast<int>(net.parameters.size()); ++p) {
      const at::Tensor& w = f.weight(p);
      if (w.defined() != weights[device].contains(p)) ++wrong;
      if (w.defined() && w.data_ptr() == net.parameters[p].tensor.data_ptr()) ++wrong;
    }
    for (int b = 0; b < static_cast<int>(net.buffers.size()); ++b) {
      const at::Tensor &own = net.buffers[b].tensor, &there = f.replica->buffers[b];
      if (own.scalar_type() != at::kFloat) continue;
      if (there.defined() != buffers[device].contains(b)) ++wrong;
      if (there.is_same(own)) ++wrong;
    }
  };
  one_step(net, 0);
  CHECK(seen > 0);
  CHECK(wrong == 0);
}

TEST_CASE("predictions in stages use their copies again until the weights change") {
  at::set_num_threads(1);
  const at::Tensor x = at::randn(image_size);
  Net net = divided({.stages = 3}, Norm::batch, 3);
  const auto seen = [&](Net& one) {
    const at::NoGradGuard no_grad;
    return one.forward({x}, 1, false, 0)[0];
  };
  const auto alone = [&] {  // what one device makes of these weights and statistics
    const at::NoGradGuard no_grad;
    Net one = small_unet(Norm::batch, {8, 12, 16}, true);
    for (std::size_t p = 0; p < net.parameters.size(); ++p)
      one.parameters[p].tensor.copy_(net.parameters[p].tensor);
    for (std::size_t b = 0; b < net.buffers.size(); ++b)
      one.buffers[b].tensor.copy_(net.buffers[b].tensor);
    return seen(one);
  };
  const auto last = std::find_if(net.parameters.begin(), net.parameters.end(),
                                 [](const auto& p) { return p.name == "last.weight"; });
  REQUIRE(last != net.parameters.end());
  const at::Tensor weight = last->tensor.detach();
  // Past every version counter, as a kernel on a device writes.
  const auto write = [&](float value) {
    std::fill_n(static_cast<float*>(weight.data_ptr()), weight.numel(), value);
  };
  const at::Tensor before = seen(net);
  CHECK(before.equal(alone()));
  write(std::numeric_limits<float>::quiet_NaN());  // from here on only the copies are good
  CHECK(seen(net).equal(before));
  net.forget_copies();
  CHECK_FALSE(seen(net).isfinite().any().item<bool>());
  write(0.5f);
  net.forget_copies();
  CHECK(seen(net).equal(alone()));
  weight.mul_(2);  // nobody says so, but versions do
  CHECK(seen(net).equal(alone()));
  one_step(net, 0);  // moves the statistics
  CHECK(seen(net).equal(alone()));
  write(0.25f);
  one_step(net, 1);  // a training pass makes its own copies
  CHECK(seen(net).equal(alone()));
}

TEST_CASE("what one device throws reaches the caller, and the next pass is right") {
  at::set_num_threads(1);
  const NetDivision division{.stages = 3, .chunks = 4};
  Net whole = divided(division, Norm::instance, 1);
  const auto expected = one_step(whole, 0);
  for (const bool is_backward : {false, true})
    for (const int device : {0, 1, 2}) {
      CAPTURE(is_backward);
      CAPTURE(device);
      Net net = divided(division, Norm::instance, 3);
      net.observer = [&](const Step& s, const Frame& f) {
        if (f.grads.empty() != is_backward && f.first_sample == 1 &&
            device_of(net, s.number) == device)
          throw std::runtime_error("no memory");
      };
      CHECK(contains(message_of([&] { one_step(net, 0); }), "no memory"));
      net.observer = nullptr;
      const auto again = one_step(net, 0);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(again[i].equal(expected[i]));
      for (std::size_t p = 0; p < net.parameters.size(); ++p)
        CHECK(net.parameters[p].tensor.grad().equal(whole.parameters[p].tensor.grad()));
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
