// Ten graphs, each with one planted bottleneck: does the verdict name it, and does the run after
// the change that it names reach the predicted rate? Bodies sleep (reading) or compute
// (transforms), so they cost the same on any machine that has two free cores.
//
//   bench_unbalanced [seconds a run] [--json]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "engine/judge/forecast.h"
#include "engine/judge/verdict.h"
#include "tests/engine/toy.h"

using namespace sluice;
using namespace sluice::toy;

namespace {

void burn(double ms) {
  const std::int64_t end = now_ns() + static_cast<std::int64_t>(ms * 1e6);
  while (now_ns() < end) {
  }
}

// One stage of a graph: a plain node, a buffer or a batch.
struct Stage {
  std::string name;
  double sleep_ms = 0, burn_ms = 0;
  LaneKind lane = LaneKind::compute;
  int threads = 0;            // its own limit
  int buffer = 0, batch = 0;  // credits after it; members
};

struct Planted {
  std::string name, bottleneck;  // the node that the verdict should name
  std::vector<Stage> stages;
  Threads threads{2, 2, 2, 1};
  Stage validation{};  // where it has a name: after every 40 batches 10 of these
};

// What a change did to the graph or its threads.
void apply(const std::string& change, Planted& p) {
  const auto number = std::atoi(change.substr(change.find('=') + 1).c_str());
  if (change.starts_with("threads=")) p.threads.compute = number;
  if (change.starts_with("io_threads=")) p.threads.io = number;
  if (change == "free:" + p.validation.name) p.validation.burn_ms = 0;
  for (Stage& s : p.stages) {
    if (change == "free:" + s.name) s.sleep_ms = s.burn_ms = 0;
    if (change == "null:model" && s.lane == LaneKind::step) s.sleep_ms = s.burn_ms = 0;
    if (change.starts_with(s.name + ".threads=")) s.threads = number;
    if (change.starts_with(s.name + ".n=")) s.buffer = number;
  }
}

// The graph of a case; kept alive with its plan.
struct Built {
  Builder b;
  explicit Built(const Planted& p) {
    const bool turns = !p.validation.name.empty();
    b.graph.run.epochs = 100'000;
    int last = b.source("cases", turns ? 40 : 1'000'000);
    for (const Stage& s : p.stages) {
      Spec spec = s.batch ? batch_spec() : s.buffer ? buffer_spec() : plain(s.name.c_str());
      if (turns && s.lane == LaneKind::step) {
        last = b.add("fwd", reader_spec(), forward, {{last, 0}});
        spec = updater_spec();
      }
      if (s.lane == LaneKind::step) spec.ordered();
      spec.lane(s.lane);
      Json params = Json::object();
      if (s.batch) params["size"] = s.batch;
      if (s.buffer) params["n"] = s.buffer;
      const Stage stage = s;
      last = b.add(
          s.name, spec,
          [stage](Firing& f) {
            if (stage.sleep_ms > 0) nap(static_cast<std::uint64_t>(1000 * stage.sleep_ms));
            if (stage.burn_ms > 0) burn(stage.burn_ms);
            if (stage.batch)
              join_members(f);
            else
              forward(f);
          },
          {{last, 0}}, params);
      b.graph.nodes.back().threads = s.threads;
    }
    if (turns) {
      const int val = b.source("val", 10);
      b.graph.nodes[static_cast<std::size_t>(val)].after = "step";
      const double ms = p.validation.burn_ms;
      const int infer = b.add(p.validation.name, reader_spec(),
                              [ms](Firing& f) {
                                burn(ms);
                                forward(f);
                              },
                              {{val, 0}});
      b.add("dice", sink("dice"), [](Firing&) {}, {{infer, 0}});
    }
    if (!b.plan(p.threads.compute)) {
      std::fprintf(stderr, "%s: no plan\n", p.name.c_str());
      std::exit(1);
    }
  }
};

Figures run(const Planted& p, Built& built, double seconds) {
  RunEvents silent;
  RunOptions o;
  o.threads = p.threads.compute;
  o.io_threads = p.threads.io;
  o.background = false;
  Scheduler s(*built.b.made, built.b.pointers(), o, silent);
  std::vector<Reading> before, after;
  std::thread clock([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(0.2 * seconds));
    before = s.readings();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    after = s.readings();
    s.stop();
  });
  s.run();
  clock.join();
  return Figures::between(*built.b.made, p.threads, before, after);
}

std::vector<Planted> cases() {
  const LaneKind io = LaneKind::io, step = LaneKind::step, compute = LaneKind::compute;
  return {
      {"slow load",
       "load",
       {{"load", 20, 0, io},
        {"norm", 0, 1},
        {"batch", 0, 0, compute, 0, 0, 4},
        {"step", 0, 4, step}}},
      {"slow transform",
       "elastic",
       {{"load", 2, 0, io},
        {"elastic", 0, 12},
        {"batch", 0, 0, compute, 0, 0, 4},
        {"step", 0, 4, step}},
       {1, 2, 2, 1}},
      {"slow step",
       "step",
       {{"load", 2, 0, io},
        {"norm", 0, 1},
        {"batch", 0, 0, compute, 0, 0, 2},
        {"step", 0, 30, step}}},
      {"tiny buffer",
       "ahead",
       {{"load", 4, 0, io, 8},
        {"ahead", 0, 0, compute, 0, 1},
        {"filter", 15, 0, compute},
        {"next", 0, 0, compute, 0, 8},
        {"step", 2, 0, step}},
       {4, 8, 2, 1}},
      {"one reader",
       "load",
       {{"load", 15, 0, io, 1},
        {"norm", 0, 1},
        {"batch", 0, 0, compute, 0, 0, 4},
        {"step", 0, 4, step}},
       {2, 8, 2, 1}},
      {"starved batch",
       "rare",
       {{"load", 3, 0, io},
        {"rare", 9, 0, compute, 1},
        {"batch", 0, 0, compute, 0, 0, 8},
        {"step", 0, 6, step}},
       {4, 4, 2, 1}},
      {"slow collation",
       "batch",
       {{"load", 2, 0, io},
        {"norm", 0, 0.5},
        {"batch", 0, 40, compute, 1, 0, 8},
        {"step", 0, 5, step}}},
      {"blocked validation",
       "infer",
       {{"load", 2, 0, LaneKind::io}, {"norm", 0, 0.5}, {"step", 0, 4, LaneKind::step}},
       {2, 2, 2, 1},
       {"infer", 0, 40}},
      {"all cores busy",
       "warp",
       {{"load", 1, 0, io},
        {"warp", 0, 10},
        {"blur", 0, 6},
        {"batch", 0, 0, compute, 0, 0, 4},
        {"step", 2, 0, step}}},
      {"inference",
       "infer",
       {{"load", 6, 0, io},
        {"norm", 0, 2},
        {"ahead", 0, 0, compute, 0, 4},
        {"infer", 25, 0, step}}},
  };
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 1.5;
  bool json = false;
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], "--json"))
      json = true;
    else
      seconds = std::atof(argv[i]);
  Json rows = Json::array();
  int named = 0, close = 0;
  if (!json)
    std::printf("%-18s %-9s %-9s %-16s %8s %10s %9s %7s\n", "graph", "planted", "named", "change",
                "before", "predicted", "measured", "off");
  for (const Planted& planted : cases()) {
    Built built(planted);
    const Plan& plan = *built.b.made;
    const Figures figures = run(planted, built, seconds);
    const Verdict v = judge(plan, figures);
    const std::string found =
        v.node < 0 ? "-" : plan.nodes[static_cast<std::size_t>(v.node)].path();
    Planted changed = planted;
    apply(v.change, changed);
    Built after(changed);
    const Plan& then = *after.b.made;
    PlanCosts costs = PlanCosts::of(then, plan, figures);
    for (std::size_t i = 0; i < then.nodes.size(); ++i)
      if (v.change == "free:" + then.nodes[i].path() ||
          (v.change == "null:model" && then.nodes[i].lane == LaneKind::step))
        costs.nodes[i].service_s = 0;
    const double model = forecast(plan, planted.threads, PlanCosts::of(plan, plan, figures));
    const double predicted = v.rate * forecast(then, changed.threads, costs) / model;
    const double measured = pace(then, run(changed, after, seconds));
    const double off = predicted / measured - 1;
    named += found == planted.bottleneck;
    close += std::abs(off) <= 0.15;
    rows.push_back({{"graph", planted.name},
                    {"planted", planted.bottleneck},
                    {"named", found},
                    {"change", v.change},
                    {"before", v.rate},
                    {"model", model},
                    {"predicted", predicted},
                    {"measured", measured},
                    {"off", off}});
    if (!json)
      std::printf("%-18s %-9s %-9s %-16s %8.1f %10.1f %9.1f %+6.0f%%\n", planted.name.c_str(),
                  planted.bottleneck.c_str(), found.c_str(), v.change.c_str(), v.rate, predicted,
                  measured, 100 * off);
  }
  if (json)
    std::printf(
        "%s\n",
        Json{{"graphs", rows}, {"named", named}, {"within_15_percent", close}}.dump(2).c_str());
  else
    std::printf("named %d of %zu, within 15 %% %d of %zu\n", named, rows.size(), close,
                rows.size());
}
