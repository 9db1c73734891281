// How well a graph's data side feeds a consumer: AU, the share of the time in which a training step
// of T ms would work (MLPerf Storage's accelerator utilisation, the WARM first batches excluded).
//
//   bench_loader GRAPH THREADS WARM BATCHES T...      T in ms; 0: as fast as batches come
//
// GRAPH ends in a node of type "consume", which this program adds: it sleeps for T, as a training
// loop does while a GPU works. Prints one JSON line a T.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

#include "engine/graph/merge.h"
#include "engine/run/open_context.h"
#include "engine/run/registry.h"
#include "engine/run/scheduler.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/base/allocator.h"
#include "tools/bench/clock.h"

using namespace sluice;

namespace {

double step_ms = 0;
std::uint64_t warm = 0, wanted = 0, seen = 0;
std::int64_t first_ns = 0, last_ns = 0;
double first_cpu = 0;
Scheduler* running = nullptr;

struct Consume final : Node {
  struct Params {
  } p;
  static Spec spec() {
    return Spec("consume", "Sleeps as long as a training step takes.")
        .in("sample")
        .ordered()
        .lane(LaneKind::step);
  }
  void process(Firing&) override {
    if (seen > warm + wanted) return;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(step_ms));
    const std::int64_t now = now_ns();
    if (seen++ == warm) {
      first_ns = now;
      first_cpu = cpu_seconds();
    }
    last_ns = now;
    if (seen > warm + wanted) running->stop();
  }
};
const Register<Consume> registered;

// One run of the graph; what a session does, without networks or a folder.
int run(const std::string& file, int threads) {
  Diagnostics diagnostics;
  std::optional<Graph> graph;
  if (DocumentPtr document = read_graph_files({file}, diagnostics))
    graph = load_graph(document, Registry::global().catalogue(), {}, diagnostics);
  std::optional<Plan> plan;
  if (graph) plan = make_plan(*graph, {.threads = threads}, diagnostics);
  diagnostics.print(std::cerr, false);
  if (!plan) return 2;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Node*> pointers;
  for (int i = 0; i < static_cast<int>(plan->nodes.size()); ++i) {
    const PlanNode& n = plan->nodes[static_cast<std::size_t>(i)];
    nodes.push_back(Registry::global().make_node(n.spec->name, n.graph->params));
    OpenContext context = planned_context(*plan, i);
    context.resources = std::make_shared<Resources>();
    nodes.back()->open(context);
    pointers.push_back(nodes.back().get());
  }
  RunOptions o;
  o.threads = threads;
  o.io_threads = std::max({2, threads, plan->io_threads});
  o.on_thread = [](LaneKind) {
    at::get_num_threads();
    at::set_num_threads(1);
    at::GradMode::set_enabled(false);
  };
  RunEvents silent;
  Scheduler scheduler(*plan, pointers, o, silent);
  running = &scheduler;
  seen = 0;
  const Outcome outcome = scheduler.run();
  if (outcome.status == Outcome::Status::failed) {
    std::fprintf(stderr, "%s\n", outcome.failure.str().c_str());
    return 1;
  }
  const double wall = static_cast<double>(last_ns - first_ns) * 1e-9;
  const auto n = static_cast<double>(seen - 1 - warm);
  std::printf(
      "{\"step_ms\": %.3f, \"batches\": %.0f, \"ms_each\": %.3f, \"au\": %.4f, "
      "\"cpu_ms_each\": %.3f}\n",
      step_ms, n, 1e3 * wall / n, step_ms * 1e-3 * n / wall, 1e3 * (cpu_seconds() - first_cpu) / n);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tune_allocator();
  if (argc < 6) {
    std::fprintf(stderr, "usage: bench_loader GRAPH THREADS WARM BATCHES T...\n");
    return 2;
  }
  warm = std::strtoull(argv[3], nullptr, 10);
  wanted = std::strtoull(argv[4], nullptr, 10);
  for (int i = 5; i < argc; ++i) {
    step_ms = std::atof(argv[i]);
    if (const int code = run(argv[1], std::atoi(argv[2]))) return code;
  }
}
