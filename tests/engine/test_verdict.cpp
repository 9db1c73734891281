#include <doctest/doctest.h>

#include "engine/judge/verdict.h"
#include "toy_graph.h"

using namespace sluice;

namespace {

// Two lanes of data work, a training region and a validation stream.
const char* const training = R"({
  "models": { "net": { "type": "unet" } },
  "nodes": {
    "train": { "type": "cases", "root": "x" },
    "load":  { "type": "load", "in": "train" },
    "norm":  { "type": "normalize", "in": "load" },
    "crop":  { "type": "crop", "in": "norm", "num_samples": 2 },
    "flip":  { "type": "flip", "in": "crop" },
    "batch": { "type": "batch", "in": "flip", "size": 8 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_loss", "in": "fwd" },
    "step":  { "type": "adam", "in": "loss", "net": "net" } } })";

struct Case {
  toys::Loaded loaded;
  std::optional<Plan> plan;
  Figures figures;
  explicit Case(const char* text, Threads threads = {2, 2, 8}) : loaded(toys::load(text)) {
    REQUIRE_MESSAGE(loaded.graph, toys::faults(loaded.diagnostics));
    plan = make_plan(*loaded.graph, PlanOptions{}, loaded.diagnostics);
    REQUIRE(plan);
    figures.wall_s = 10;
    figures.threads = threads;
    figures.nodes.resize(plan->nodes.size());
    for (auto& n : figures.nodes) n.known = true;
    // 40 samples a second: 80 patches, 10 batches.
    rate({"train", "load", "norm", "crop"}, 40);
    rate({"flip"}, 80);
    rate({"batch", "fwd", "loss", "step"}, 10);
  }
  NodeFigures& at(const std::string& path) {
    const int i = loaded.graph->find(path);
    REQUIRE(i >= 0);
    return figures.nodes[static_cast<std::size_t>(i)];
  }
  void rate(std::initializer_list<const char*> nodes, double r) {
    for (const char* n : nodes)
      if (loaded.graph->find(n) >= 0) at(n).rate = r;
  }
  // Bodies at a time, on average.
  void busy(const std::string& path, double bodies) { at(path).busy_s = 10 * bodies; }
  Verdict verdict() const { return judge(*plan, figures); }
};

}  // namespace

TEST_CASE("A full lane limits, and more threads lift it up to the next limit") {
  Case c(training);
  c.busy("load", 1.94);
  c.busy("fwd", 0.30);
  c.busy("step", 0.15);
  c.busy("flip", 0.2);
  const Verdict v = c.verdict();
  CHECK(v.rate == doctest::Approx(40));
  CHECK(c.plan->nodes[static_cast<std::size_t>(v.node)].path() == "load");
  CHECK(v.text ==
        "`load` limits: 2 of 2 io threads busy 97 %; with 4, about 82/s; next limit `fwd` at 89/s");
  CHECK(v.advice == "io threads 2 → 4 would give about 82/s");
  CHECK(v.change == "io_threads=4");
  CHECK(v.limits.size() == 3);  // io, step, compute
  CHECK(v.limits.front().rate == doctest::Approx(40 / 0.97));
  c.at("fwd").starved = 0.2;
  c.busy("step", 0.5);  // then the region is full at 50/s, and three threads are enough
  CHECK(
      c.verdict().text ==
      "`load` limits: 2 of 2 io threads busy 97 %; with 3, about 50/s; next limit `step` at 50/s");
}

TEST_CASE("Compute threads are not promised beyond the machine's cores") {
  Case c(training, {2, 2, 3});
  c.busy("norm", 1.2);
  c.busy("flip", 0.7);
  c.busy("step", 0.3);
  c.at("fwd").starved = 0.7;
  CHECK(c.verdict().text ==
        "`norm` limits: 2 of 2 compute threads busy 95 %, 60 % here; with 3, about 63/s; "
        "next limit `step` at 133/s");
  CHECK(c.verdict().change == "threads=3");
  c.figures.threads.cores = 2;
  CHECK(c.verdict().text ==
        "`norm` limits: 2 of 2 compute threads busy 95 %, 60 % here; these are all cores: it "
        "needs more of them, or less work a sample; next limit `step` at 133/s");
  CHECK(c.verdict().advice == "all 2 cores work");
  CHECK(c.verdict().change == "free:norm");
}

TEST_CASE("One more thread is proposed where the next limit is as tight") {
  Case c(training);
  c.busy("load", 2);
  c.busy("norm", 2);
  CHECK(c.verdict().change == "threads=3");
}

TEST_CASE("As many threads are proposed as the next limit allows, and at most twice as many") {
  Case c(training, {2, 2, 100});
  c.busy("load", 1.0);
  c.busy("step", 0.01);
  const auto change = [&] { return c.verdict().change; };
  CHECK(change() == "io_threads=4");
  c.busy("step", 0.26);
  CHECK(change() == "io_threads=4");
  c.busy("step", 0.4);
  CHECK(change() == "io_threads=3");
  c.busy("load", 0);
  c.busy("norm", 1.0);
  CHECK(change() == "threads=3");
}

TEST_CASE("Where the rate is not known, more threads are promised nothing") {
  Case c(training);
  c.rate({"train", "step"}, 0);
  c.busy("load", 1.9);
  CHECK(c.verdict().text == "`load` limits: 2 of 2 io threads busy 95 %; more may lift it");
  CHECK(c.verdict().advice == "more io threads may lift it");
  CHECK(c.verdict().change == "io_threads=4");
}

TEST_CASE("A slow rate is told with two digits") {
  Case c(training);
  c.rate({"step"}, 0.25);
  c.busy("load", 1.6);
  c.busy("step", 0.5);
  CHECK(c.verdict().text ==
        "`load` limits: 2 of 2 io threads busy 80 %; with 4, about 2/s; next limit `step` at 2/s");
  c.busy("step", 0.04);  // next to nothing is no limit
  CHECK(c.verdict().text == "`load` limits: 2 of 2 io threads busy 80 %; with 4, about 2.5/s");
}

TEST_CASE("A node's own limit is what would have to be raised") {
  Case c(R"({ "nodes": {
    "s": { "type": "cases", "root": "x" },
    "load": { "type": "load", "in": "s", "threads": 2 },
    "copy": { "type": "to_device", "in": "load" },
    "norm": { "type": "normalize", "in": "copy" } } })",
         {8, 8, 8});
  for (auto& n : c.figures.nodes) n.rate = 20;
  c.busy("load", 1.8);
  CHECK(c.verdict().text == "`load` limits: 2 at a time, busy 90 %");
  CHECK(c.verdict().advice == "2 at a time");
  CHECK(c.verdict().change == "load.threads=4");
  c.busy("load", 0);
  c.busy("copy", 0.8);
  CHECK(c.verdict().text == "`copy` limits: the one copy thread is busy 80 %");
  CHECK(c.verdict().advice == "the copy thread is busy 80 %");
  CHECK(c.verdict().change == "free:copy");
}

TEST_CASE("A full training region limits although the data threads are stretched by it") {
  Case c(training, {2, 2, 2});
  c.busy("fwd", 0.5);
  c.busy("step", 0.42);
  c.busy("norm", 1.9);
  c.at("fwd").starved = 0.02;
  Verdict v = c.verdict();
  CHECK(v.text == "`fwd` limits: the one step thread is busy 92 %, 50 % here");
  CHECK(v.advice == "the step thread is busy 92 %");
  CHECK(v.change == "null:model");
  c.at("fwd").starved = 0.3;  // now it waits for batches
  c.busy("step", 0.2);
  v = c.verdict();
  CHECK(c.plan->nodes[static_cast<std::size_t>(v.node)].path() == "norm");
}

TEST_CASE("A device's stream limits, and kernels that wait to be queued are told from long ones") {
  Case c(training);
  c.busy("load", 0.4);
  for (const auto& [node, device, host] :
       {std::tuple{"fwd", 0.60, 0.05}, {"loss", 0.06, 0.01}, {"step", 0.30, 0.02}}) {
    c.busy(node, device);
    c.at(node).host_s = 10 * host;
  }
  CHECK(c.verdict().text ==
        "`fwd` limits: the device's step stream is busy 96 %, the thread that queues its work 8 %, "
        "60 % here; next limit `load` at 200/s");
  CHECK(c.verdict().advice == "the step stream is busy 96 %");
  c.at("fwd").host_s = 8;
  CHECK(c.verdict().advice == "kernels wait to be queued: run.cuda_graphs");
  CHECK(c.verdict().text.find("so kernels wait to be queued: `run.cuda_graphs` queues the training "
                              "step as a whole") != std::string::npos);
}

TEST_CASE("A node that works on one packet at a time limits while its lane has room") {
  Case c(R"({ "nodes": {
    "s": { "type": "cases", "root": "x" },
    "load": { "type": "load", "in": "s" },
    "norm": { "type": "normalize", "in": "load" },
    "dice": { "type": "dice", "in": "norm" } } })",
         {4, 4, 8});
  for (auto& n : c.figures.nodes) n.rate = 20;
  c.busy("dice", 0.98);
  c.busy("norm", 0.5);
  c.busy("load", 2.0);
  CHECK(c.verdict().text ==
        "`dice` limits: it works on one packet at a time, busy 98 %; next limit `load` at 40/s");
  CHECK(c.verdict().advice == "one at a time");
  CHECK(c.verdict().change == "free:dice");
}

TEST_CASE("Credits limit where they are all out and the next segment starves") {
  Case c(R"({ "nodes": {
    "s": { "type": "cases", "root": "x" },
    "ahead": { "type": "buffer", "in": "s", "size": 3 },
    "load": { "type": "load", "in": "ahead" },
    "more": { "type": "buffer", "in": "load", "size": 9 },
    "norm": { "type": "normalize", "in": "more" } } })",
         {8, 8, 8});
  for (auto& n : c.figures.nodes) n.rate = 20;
  c.busy("load", 2.8);
  c.at("ahead").blocked = 0.8;
  c.at("more").starved = 0.9;
  CHECK(c.verdict().text ==
        "the credits of `ahead` limit: its 3 are out, it waits for one 80 % of the time, and what "
        "comes behind waits for input; a larger `size` lifts it");
  CHECK(c.verdict().advice == "its 3 credits are out: raise size");
  CHECK(c.verdict().change == "ahead.size=6");
  c.at("more").starved = 0.1;  // what comes behind is slow
  CHECK(c.verdict().node == -1);
  CHECK(c.verdict().text ==
        "nothing limits: no thread is busy half of the time (most: `load`, 35 %)");
  c.at("more").starved = 0.9;
  c.busy("load", 0.7);  // its packets wait for something else
  CHECK(c.verdict().node == -1);
}

TEST_CASE("Nothing measured, and nothing done, is no verdict") {
  Case c(training);
  CHECK(c.verdict().node == -1);
  CHECK(judge(*c.plan, Figures{}).text.empty());
  Figures none;
  none.wall_s = 3;
  none.nodes.resize(c.plan->nodes.size());
  CHECK(judge(*c.plan, none).text.empty());
}

TEST_CASE("Figures are the difference of two readings, and survive JSON") {
  Case c(training);
  const std::size_t n = c.plan->nodes.size();
  std::vector<Reading> a(n), b(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i].at_ns = 5'000'000'000;
    b[i].at_ns = 7'000'000'000;
  }
  const auto load = static_cast<std::size_t>(c.loaded.graph->find("load"));
  a[load].fired = 10;
  a[load].busy_ns = 6'000'000'000;
  b[load].fired = 30;
  b[load].passed = 4;
  b[load].busy_ns = 9'000'000'000;
  b[load].starved_ns = 500'000'000;
  b[load].queue = 3;
  const Figures f = Figures::between(*c.plan, {2, 2, 8}, a, b);
  CHECK(f.wall_s == doctest::Approx(2));
  CHECK(f.nodes[load].rate == doctest::Approx(12));
  CHECK(f.nodes[load].busy == doctest::Approx(0.75));
  CHECK(f.nodes[load].starved == doctest::Approx(0.25));
  const Figures g = Figures::from_json(*c.plan, f.to_json(*c.plan));
  CHECK(g.to_json(*c.plan) == f.to_json(*c.plan));
  CHECK(g.threads.cores == 8);
}

TEST_CASE("The room in front of a node is its segment's credits, times the children of a 1:n") {
  Case c(training);
  const auto at = [&](const char* path) { return c.loaded.graph->find(path); };
  const auto credits = [&](const char* path) {
    return c.plan->nodes[static_cast<std::size_t>(at(path))].credits;
  };
  CHECK(queue_room(*c.plan, at("train")) == 0);
  CHECK(queue_room(*c.plan, at("load")) == credits("train"));
  CHECK(queue_room(*c.plan, at("batch")) == 2 * credits("train"));
  CHECK(queue_room(*c.plan, at("fwd")) == credits("batch"));
  CHECK(samples_each(*c.plan, at("flip")) == doctest::Approx(0.5));
  CHECK(samples_each(*c.plan, at("step")) == doctest::Approx(4));
  CHECK(pace_node(*c.plan, pace_stream(*c.plan)) == at("step"));
}
